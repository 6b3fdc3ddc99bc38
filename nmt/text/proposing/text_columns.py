"""Which columns of a table hold the text: exports have numbers, ids, codes and addresses beside it."""

import re
from collections.abc import Sequence

from nmt.config import CorpusFile, LanguagePair
from nmt.text.corpus import first_cells
from nmt.text.identification import Line, detected
from nmt.text.languages import is_language, language_code, primary_code
from nmt.text.readers.opening import STANDARD_INPUT

_LEAST_SHARE = 0.5  # of the cells of a column of text that are text
_ID = re.compile(r"\S*(\d|://)\S*")


def with_text_columns(corpus: CorpusFile, languages: LanguagePair | None) -> CorpusFile:
    """Return a corpus with the columns that hold its text, in the first lines of its file.

    They are the first two with text; of more columns, those in the languages, if these are known and found. A corpus
    with fewer such columns, with a line that names them, or in another format is returned as it is.
    """
    if corpus.file in (None, STANDARD_INPUT):
        return corpus
    records = first_cells(corpus, languages)
    if _has_header(records):
        return corpus
    columns = [column for column in range(max(map(len, records), default=0)) if _is_text(_cells(records, column))]
    if len(columns) > 2 and languages is not None:
        lines = {column: [Line(*cell) for cell in enumerate(_cells(records, column), start=1)] for column in columns}
        codes = {detected(lines[column]): column for column in reversed(columns)}
        sides = [codes.get(primary_code(code)) for code in (languages.source, languages.target)]
        columns = [side for side in sides if side is not None] if None not in sides else columns
    if len(columns) < 2:
        return corpus
    return corpus.model_copy(update={"columns": (columns[0] + 1, columns[1] + 1)})


def _has_header(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names the columns of the text; language codes that all lines have are no names."""
    if not records:
        return False
    names = [language_code(cell) for cell in records[0]]
    of_languages = [cell for cell, name in zip(records[0], names, strict=True) if is_language(name)]
    everywhere = len(records) > 1 and {*of_languages} <= {*records[1]}
    return {"source", "target"} <= {*names} or (len(of_languages) > 1 and not everywhere)


def _cells(records: Sequence[Sequence[str]], column: int) -> list[str]:
    return [cells[column] for cells in records if len(cells) > column and cells[column]]


def _is_text(cells: Sequence[str]) -> bool:
    text = sum(any(map(str.isalpha, cell)) and not _ID.fullmatch(cell) and not is_language(cell) for cell in cells)
    return text > _LEAST_SHARE * len(cells)
