"""The Transformer and the directory that holds a trained one. Knows no text."""
