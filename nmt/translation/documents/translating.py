"""Translate the texts of a document."""

import re
import time
from dataclasses import replace
from itertools import islice

from nmt.system.console import Console, counted
from nmt.system.distributed import on_rank_zero, scatter_map
from nmt.text.protection import ICU_ARGUMENT
from nmt.translation.documents.document import Document
from nmt.translation.pipeline import DIFFERING, translations_with
from nmt.translation.requirements import TranslateOptions, has_words
from nmt.translation.translator import LINE_BATCH_SIZE, Translation, Translator

# from the start of a run of spaces, and possessive: otherwise long runs take quadratic time
_LINE = re.compile(r"((?<!\s)(?=[^\S\r\n]*+[\r\n])\s++|\A\s++|(?<!\s)\s++\Z)")
"""What is between the lines of a text, and around it; it stays."""


def translate_document(
    translator: Translator, document: Document | None, options: TranslateOptions, console: Console
) -> bytes:
    """Return the file with its texts translated, sentence by sentence; the processes of torchrun translate together.

    Processes other than the first have no document and return b"". Plural and select messages of ICU stay. Raises as
    `Document.encoded` does.
    """
    started = time.monotonic()
    options = replace(options, document=True)
    slots = document.slots if document is not None else ()
    messages = [slot.place for slot in slots if ICU_ARGUMENT.search(slot.text)]
    slots = [slot for slot in slots if not ICU_ARGUMENT.search(slot.text)]
    parts_of = [_LINE.split(slot.text) for slot in slots]
    lines = dict.fromkeys(part for parts in parts_of for part in parts if has_words(part))
    remaining, size = iter(list(lines)), translator.scale * LINE_BATCH_SIZE
    batches = iter(lambda: list(islice(remaining, size)), [])
    made: dict[str, Translation] = {}
    with console.progress("translating", on_rank_zero(lambda: len(lines)), "lines") as advance:
        for batch, found in scatter_map(batches, lambda batch: (batch, translator.translate_lines(batch, options))):
            made |= zip(batch, found, strict=True)
            advance(len(batch))
    if document is None:
        return b""
    differing = []
    for slot, parts in zip(slots, parts_of, strict=True):
        slot.write("".join(made[part].text if part in made else part for part in parts))
        if any(any(made[part].diff) for part in parts if part in made):
            differing.append(slot.place)
    if not document.slots:
        console.warn(f"{document.name}: nothing to translate: {document.without_texts}")
    if messages:
        places = ", ".join(messages[:10]) + (", …" if len(messages) > 10 else "")
        stay = "stays as it is" if len(messages) == 1 else "stay as they are"
        console.warn(f"{counted(len(messages), 'plural or select message')} of ICU {stay}: {places}")
    if differing:
        console.warn(translations_with(DIFFERING, "text", differing))
    data = document.encoded()
    console.info(f"translated {counted(len(slots), 'text')} in {time.monotonic() - started:.1f} s")
    return data
