"""The page of `nmt report` and the figures of `nmt figures`, both drawn by matplotlib."""
