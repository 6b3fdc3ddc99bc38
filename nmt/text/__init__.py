"""Sentences before they are tensors: readers, normalization, filters, tokenizer, the prepared corpus. Free of torch."""
