"""Documents whose texts are translated: subtitles, tables, and files of localization.

Each format has a module with a function that finds the texts of a document. In subtitles and JSON they are replaced at
their positions in the original; tables, PO and XLIFF are written by the libraries that read them.
"""
