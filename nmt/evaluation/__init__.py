"""Scores of translations, their significance, and warnings about them. Imports no torch."""
