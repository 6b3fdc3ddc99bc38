"""Search for the translations of many sentences on a CPU, without torch where no option needs it."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nmt.decoding.batches import balanced_batches, in_halves, in_order, in_threads
from nmt.decoding.hypothesis import Hypothesis, hypotheses
from nmt.decoding.options import SearchOptions
from nmt.kernels.native import ACTIVE_HYPOTHESES, NativeModel
from nmt.text.tokenizer import EOS

if TYPE_CHECKING:
    from nmt.decoding.engine import TorchEngine
    from nmt.decoding.models import BatchRunner

Ids = Sequence[int]


class Engine(Protocol):
    """What searches with one model or several."""

    description: str  # what computes, where, and in which precision
    problem: str | None  # why faster kernels cannot be used here
    uses_cores: bool  # whether several batches are searched at a time, one by each core
    search_scale: int  # by how much the tokens of a batch exceed the default

    @property
    def threads(self) -> int:
        """The number of threads among which batches are divided."""

    @property
    def runner(self) -> "BatchRunner":
        """The models in torch, for all that is no search; loading them takes seconds."""

    def search(
        self, sentences: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids] | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order, for source ids without `</s>`.

        `prefixes` are the target ids that the hypotheses of each sentence begin with.
        """

    def of_worker(self, ask: Callable[[object], Any]) -> "Engine":
        """Return what searches in a fork of this process; `ask` returns what `answers` does in this process."""

    @property
    def answers(self) -> Callable[[Sequence[Any]], list[Any]] | None:
        """What answers the requests of workers that wait; None if they compute everything themselves."""


class NativeEngine:
    """The kernels in C++, which search; torch is loaded for what they do not compute."""

    problem: str | None = None
    answers = None
    uses_cores, search_scale = True, 1

    def __init__(self, model: NativeModel, load: "Callable[[], TorchEngine]", threads: int) -> None:
        self._model, self._load, self._threads = model, load, threads
        self.description = f"compiled kernels, cpu, {model.precision}"

    @property
    def threads(self) -> int:
        """The number of threads among which batches are divided."""
        return self._threads

    @cached_property
    def _torch(self) -> "TorchEngine":
        return self._load()

    @property
    def runner(self) -> "BatchRunner":
        """The model in torch."""
        return self._torch.runner

    def search(
        self, sentences: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids] | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, see `Engine.search`.

        A batch that does not fit into RAM is halved. Raises ConfigError if not even one sentence fits.
        """
        if not options.is_plain or any(prefixes or ()):
            return self._torch.search(sentences, options, prefixes)
        lengths = [len(ids) + 1 for ids in sentences]
        sizes = options.width, options.batch_tokens, ACTIVE_HYPOTHESES * min(2, options.width), self._threads
        batches = list(balanced_batches(lengths, *sizes))
        search = partial(plain_search, self._model, options=options)
        function = partial(in_halves, search, too_long=partial(too_long, options.width, "RAM"))
        ids = [[[*sentences[i], EOS] for i in batch] for batch in batches]
        return in_order(batches, in_threads(function, ids, self._threads))

    def of_worker(self, ask: Callable[[object], Any]) -> Engine:
        """Return this engine with one thread."""
        self._threads = 1
        return self


def plain_search(model: NativeModel, sentences: Sequence[Ids], options: SearchOptions) -> list[list[Hypothesis]]:
    """Return the hypotheses of a batch of sentences with `</s>`, which no option but a length limit restricts."""
    limits = [options.limit(len(ids), model.settings.longest) for ids in sentences]
    found = model.search(sentences, limits, (options.beam, options.n_best), options.rules(max(limits)))
    return [hypotheses(*of_sentence, options) for of_sentence in zip(*found, strict=True)]


def too_long(width: int, memory: str, sentence: Ids) -> str:
    """Return the beginning of a message about a sentence, with `</s>`, that does not fit into a memory."""
    return f"a sentence of {len(sentence)} tokens with a beam of {width} does not fit in {memory}"


class SearchRequest(NamedTuple):
    """The arguments of `Engine.search`, for what searches in its place."""

    sentences: Sequence[Ids]
    options: SearchOptions
    prefixes: Sequence[Ids] | None


class RemoteEngine:
    """What has no engine of its own: another process, or another function, searches."""

    answers = None

    def __init__(self, engine: Engine, ask: Callable[[object], Any]) -> None:
        self.description, self.problem, self.threads = engine.description, engine.problem, engine.threads
        self.uses_cores, self.search_scale = engine.uses_cores, engine.search_scale
        self._engine, self._ask = engine, ask

    @cached_property
    def runner(self) -> "BatchRunner":
        """What runs functions of the models elsewhere."""
        from nmt.decoding.models import RemoteRunner

        return RemoteRunner(self._engine.runner, self._ask)

    def search(
        self, sentences: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids] | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order."""
        found: list[list[Hypothesis]] = self._ask(SearchRequest(sentences, options, prefixes))
        return found

    def of_worker(self, ask: Callable[[object], Any]) -> Engine:
        """Raise AssertionError: a worker has no workers."""
        raise AssertionError("a worker has no workers")
