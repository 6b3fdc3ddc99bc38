"""The lines of many requests, translated together.

A thread for each model takes the requests that wait and translates their lines in one call. It does not wait for more:
an idle server translates a request at once, and those that arrive meanwhile are the next batch. A long line is
translated alone, and shorter ones that arrive pass it between the parts of its search.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple

from nmt.decoding.engine import Engine, RemoteEngine, SearchRequest
from nmt.system.workers import batched
from nmt.text.items import Line
from nmt.translation.options import TranslateOptions
from nmt.translation.result import Translation
from nmt.translation.translator import Text, Translator

# Numbers of lines, times `Translator.scale`: of one request that are translated before other requests, and of a batch,
# from which it takes no more requests. With fewer, a long document delays other requests less.
_PART_LINES, _BATCH_LINES = 32, 256
# Requests of more characters are translated alone, and at most this many of their sentences before others.
_LONG, _PART_SENTENCES = 4000, 64


class Submission(NamedTuple):
    """Lines that wait for their translation, unless the request has been abandoned."""

    lines: Sequence[str | Line]
    options: TranslateOptions
    abandoned: Event
    result: Future[list[Translation]]

    @property
    def is_long(self) -> bool:
        """Whether other requests may overtake it."""
        return sum(len(str(line)) for line in self.lines) > _LONG


class RequestQueue:
    """The lines that wait for one model."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self._arrived = SimpleQueue[Submission]()
        self._waiting: list[Submission] = []
        self.submit = self._arrived.put
        Thread(target=self._run, name="translating", daemon=True).start()

    def translate_batches(
        self, lines: Iterable[Text], options: TranslateOptions, abandoned: Event
    ) -> Iterator[tuple[list[Text], list[Translation]]]:
        """Yield the lines of a request, in parts that delay other requests little, with their translations.

        Raises CancelledError if the request is abandoned.
        """
        for part in batched(lines, _PART_LINES * self.translator.scale):
            submission = Submission(part, options, abandoned, Future())
            self.submit(submission)
            yield part, submission.result.result()

    def _run(self) -> None:
        """Translate requests in an endless loop."""
        while True:
            if not self._waiting:
                self._waiting.append(self._arrived.get())
            self._translate(self._next_batch())

    def _next_batch(self, passes_long: bool = False) -> list[Submission]:
        """Take the oldest request and others with equal options; a long one is alone, or skipped if `passes_long`."""
        while not self._arrived.empty():
            self._waiting.append(self._arrived.get())
        batch, others, size = list[Submission](), list[Submission](), 0
        for request in self._waiting:
            if batch:
                first, has_room = batch[0], size < _BATCH_LINES * self.translator.scale
                is_next = has_room and not (request.is_long or first.is_long) and request.options == first.options
            else:
                is_next = not (request.is_long and passes_long)
            if request.abandoned.is_set():
                request.result.cancel()
            elif is_next:
                batch.append(request)
                size += len(request.lines)
            else:
                others.append(request)
        self._waiting = others
        return batch

    def _translate(self, batch: Sequence[Submission]) -> None:
        """Translate a batch; after an error, translate each request alone, so that only one fails."""
        try:
            translator = self.translator
            if batch and batch[0].is_long:
                translator, engine = copy.copy(translator), translator.engine
                translator.engine = RemoteEngine(engine, partial(self._in_parts, engine, batch[0].abandoned))
            lines = [line for request in batch for line in request.lines]
            translations = iter(translator.translate_lines(lines, batch[0].options) if lines else ())
        except CancelledError:
            batch[0].result.cancel()
        except Exception as error:
            if len(batch) == 1:
                batch[0].result.set_exception(error)
            else:
                for request in batch:
                    self._translate([request])
        else:
            for request in batch:
                request.result.set_result([next(translations) for _ in request.lines])

    def _in_parts(self, engine: Engine, abandoned: Event, request: Any) -> Any:
        """Return what the engine computes for a long request; other requests are answered between its parts."""
        if not isinstance(request, SearchRequest):
            return engine.force(*request)
        sentences, options, prefixes = request
        results, count = list[Any](), _PART_SENTENCES * self.translator.scale
        for start in range(0, len(sentences), count):
            if start:
                self._translate(self._next_batch(passes_long=True))
            if abandoned.is_set():
                raise CancelledError
            part = slice(start, start + count)
            results += engine.search(sentences[part], options, prefixes[part] if prefixes else None)
        return results
