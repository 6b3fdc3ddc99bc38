"""Text before it is tensors: readers, normalization, filters, tokenizer, the prepared corpus. Imports no torch."""
