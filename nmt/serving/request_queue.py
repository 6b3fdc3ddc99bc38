"""The lines of many requests, translated together.

A thread for each model takes the requests that wait and translates their lines in one call. It does not wait for more:
an idle server translates a request at once, and those that arrive meanwhile are the next batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from queue import SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, TypeVar

from nmt.text.items import Line
from nmt.translation.options import TranslateOptions
from nmt.translation.result import Translation
from nmt.translation.translator import Translator

# Lines, times `Translator.scale`: so many of one request are translated before those of others, and a batch takes
# requests until it has so many. With fewer, a long document delays other requests less.
_PART_LINES, _BATCH_LINES = 32, 256

Text = TypeVar("Text", str, Line)


class Submission(NamedTuple):
    """Lines that wait for their translation, unless the request has been abandoned."""

    lines: Sequence[str | Line]
    options: TranslateOptions
    abandoned: Event
    result: Future[list[Translation]]


class RequestQueue:
    """The lines that wait for one model."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self._arrived = SimpleQueue[Submission]()
        self.submit = self._arrived.put
        Thread(target=self._run, name="translating", daemon=True).start()

    def _run(self) -> None:
        """Translate forever: the oldest request together with all that wait with equal options."""
        waiting: list[Submission] = []
        while True:
            while not (waiting and self._arrived.empty()):
                waiting.append(self._arrived.get())
            batch, others, size = list[Submission](), list[Submission](), 0
            for one in waiting:
                if one.abandoned.is_set():
                    one.result.cancel()
                elif not batch or (one.options == batch[0].options and size < _BATCH_LINES * self.translator.scale):
                    batch.append(one)
                    size += len(one.lines)
                else:
                    others.append(one)
            waiting = others
            self._translate(batch)

    def _translate(self, batch: Sequence[Submission]) -> None:
        """Translate a batch; after an error each request alone, so that it is the error of one only."""
        try:
            lines = [line for one in batch for line in one.lines]
            translations = iter(self.translator.translate_lines(lines, batch[0].options) if lines else ())
        except Exception as error:
            if len(batch) == 1:
                batch[0].result.set_exception(error)
            else:
                for one in batch:
                    self._translate([one])
        else:
            for one in batch:
                one.result.set_result([next(translations) for _ in one.lines])


class QueuedTranslator(NamedTuple):
    """Translates the lines of one request through a queue, part by part, until the request is abandoned."""

    queue: RequestQueue
    abandoned: Event

    def translate_batches(
        self, lines: Iterable[Text], options: TranslateOptions
    ) -> Iterator[tuple[list[Text], list[Translation]]]:
        """Yield lines, in parts that delay other requests little, with their translations.

        Raises CancelledError if the request is abandoned.
        """
        remaining, count = iter(lines), _PART_LINES * self.queue.translator.scale
        while part := list(islice(remaining, count)):
            submission = Submission(part, options, self.abandoned, Future())
            self.queue.submit(submission)
            yield part, submission.result.result()
