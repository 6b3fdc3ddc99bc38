"""The operations of a model on rows of tokens."""
