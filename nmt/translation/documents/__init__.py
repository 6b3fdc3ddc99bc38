"""Documents whose texts are translated: subtitles, tables, files of localization, HTML, Markdown, Word.

Each format has a function that finds the entries of a document: texts, and what puts translations in their places.
These are positions in the original, so that everything else stays byte for byte; lxml writes only XLIFF and Word.
"""
