"""Documents whose texts are translated: subtitles, tables, and files of localization.

Each format has a module with a function that finds the texts of a document. They are replaced at their positions in the
original, so that everything else stays as it is.
"""
