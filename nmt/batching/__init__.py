"""From the token store to tensors: the plan of an epoch, and the batch."""
