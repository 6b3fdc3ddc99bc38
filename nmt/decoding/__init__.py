"""The search for the best translation, on token ids."""
