"""A small trilingual grammar: English, Italian and Simplified Chinese side by side."""
