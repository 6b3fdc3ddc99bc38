"""From the token store to tensors: the plan of an epoch, batches, prefetch."""
