"""The page of `nmt report`: its sections, charts and layout."""
