"""From a text to a recipe: its size and languages, its parts, and settings that fit."""
