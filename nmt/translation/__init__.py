"""Text in, text out: what `nmt translate` and validation both use."""
