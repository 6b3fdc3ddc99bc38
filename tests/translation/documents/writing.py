"""Write documents with translations that a function makes."""

from collections.abc import Callable

from nmt.translation.documents.document import Document


def texts(document: Document) -> list[str]:
    """Return the texts to translate."""
    return [slot.text for slot in document.slots]


def translated(document: Document, translate: Callable[[str], str] = str.upper) -> bytes:
    """Return the file with the translations of all texts."""
    for slot in document.slots:
        slot.write(translate(slot.text))
    return document.encoded()
