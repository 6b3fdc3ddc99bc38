"""Translate the texts of a document with the lines of all of them in one stream, so that batches are full."""

import io
import tempfile
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice

from nmt.system.console import Console, counted
from nmt.system.distributed import on_rank_zero, rank
from nmt.translation.documents.document import Document
from nmt.translation.documents.passage import Passage, TranslatedLine
from nmt.translation.pipeline import DIFFERING, LineInput, process_lines, translate_batch, translations_with
from nmt.translation.requirements import TranslateOptions
from nmt.translation.sinks import StreamOutput
from nmt.translation.translator import Translator

_LOST = "lost tags, which were put back after the same share of the text"


def translate_document(
    translator: Translator, document: Document | None, options: TranslateOptions, console: Console
) -> bytes:
    """Return the file with its texts translated; the processes of torchrun translate together.

    Processes other than the first have no document and return b"". The lines are in a temporary file, since
    `process_lines` shows the progress through a file. Raises as `process_lines` and `Document.with_translations` do.
    """
    started = time.monotonic()
    passages = [Passage.of(text) for text in document.texts] if document is not None else []
    with_pairs = on_rank_zero(lambda: any(passage.has_pairs for passage in passages))
    options = replace(options, alignment=with_pairs)
    with tempfile.TemporaryFile(buffering=0) as file, io.BytesIO() as translated:
        file.write("".join(f"{line}\n" for passage in passages for line in passage.lines).encode(errors="replace"))
        file.seek(0)
        stream = file if rank() == 0 else io.BytesIO()
        source = LineInput(stream, translator.scale)
        process = partial(translate_batch, translator, options, False)
        numbers = process_lines("translating", source, StreamOutput(translated), process, console)
        translations = map(_parsed, translated.getvalue().decode().split("\n"))
    if document is None:
        return b""
    if not passages:
        console.warn(f"{document.content.name}: nothing to translate: {document.without_texts or 'it has no text'}")
    joined = [passage.joined(list(islice(translations, len(passage.lines)))) for passage in passages]
    lost = [index for index, one in enumerate(joined) if one.tags_lost]
    ends = list(accumulate(len(passage.lines) for passage in passages))
    differing = [index for index in _indices(numbers, ends) if not joined[index].tags_lost]
    for problem, indices in ((DIFFERING, differing), (_LOST, lost)):
        if indices:
            console.warn(translations_with(problem, "text", [document.slots[index].place for index in indices]))
    data = document.with_translations([one.text for one in joined])
    console.info(f"translated {counted(len(joined), 'text')} in {time.monotonic() - started:.1f} s")
    return data


def _parsed(line: str) -> TranslatedLine:
    """Return an output line of `nmt translate`, with the alignment after a tab if there is one."""
    text, tab, links = line.partition("\t")
    pairs = [link.split("-") for link in links.split()]
    return TranslatedLine(text, [(int(i), int(j)) for i, j in pairs] if tab else None)


def _indices(line_numbers: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return the indices of the texts that these lines belong to; `ends` are the numbers of their last lines."""
    return list(dict.fromkeys(bisect_left(ends, number) for number in sorted(line_numbers)))
