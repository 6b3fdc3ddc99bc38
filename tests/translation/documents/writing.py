"""Read documents, and write them with translations that a function makes of the texts between the items."""

from collections.abc import Callable
from typing import Any, cast

from nmt.text.items import ITEM, Line
from nmt.translation.documents.document import Document, Format, ReadOptions
from nmt.translation.documents.translating import read_document


def read(format_: str, data: str | bytes, name: str = "a", **options: Any) -> Document:
    """Read a document for a model from English to Italian."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return read_document(raw, name, ReadOptions(cast(Format, format_), languages=("en", "it"), **options))


def texts(document: Document) -> list[str]:
    """Return the texts to translate."""
    return [str(text) for text, _ in document.texts.entries]


def translated(document: Document, translate: Callable[[str], str] = str.upper) -> bytes:
    """Return the file with the translations of all texts; items without a place in a translation are left out."""

    def line_of(source: Line) -> Line:
        text = translate(source.text)
        return Line(text, source.items[: text.count(ITEM)])

    return document.translated(line_of)
