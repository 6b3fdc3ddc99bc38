"""Search for the translations of many sentences on a CPU, without torch where no option needs it."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from nmt.decoding.batches import balanced_batches, in_halves, in_order, in_threads, length_batches
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Forced, Head, Hypothesis, Pair, hypotheses, pair_too_long, sentence_too_long
from nmt.kernels.native import ACTIVE_HYPOTHESES, ENCODER_ROWS, NativeModel
from nmt.text.tokenizer import EOS

if TYPE_CHECKING:
    from nmt.decoding.engine import TorchEngine
    from nmt.decoding.models import BatchRunner

Ids = Sequence[int]
Item = TypeVar("Item")
Result = TypeVar("Result")


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
        """The models in torch, for what is neither; loading them takes seconds."""

    def search(
        self, sentences: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids] | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order, for source ids without `</s>`.

        `prefixes` are the target ids that the hypotheses of each sentence begin with.
        """

    def force(self, pairs: Sequence[Pair], budget: int, heads: Sequence[Head] = ()) -> list[Forced]:
        """Return log-probabilities of given translations, and the attention of these heads, by the first model.

        A batch holds at most `budget` padded tokens, counted on the longer side; a longer pair is a batch by itself.
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
        problem = partial(sentence_too_long, options.width, "RAM")
        return self._in_batches(search, [[*ids, EOS] for ids in sentences], batches, problem)

    def force(self, pairs: Sequence[Pair], budget: int, heads: Sequence[Head] = ()) -> list[Forced]:
        """Return log-probabilities and attention, see `Engine.force`."""
        batches = length_batches([max(map(len, pair)) + 1 for pair in pairs], min(budget, ENCODER_ROWS))

        def force(batch: Sequence[Pair]) -> list[Forced]:
            ended = [([*source, EOS], [*target, EOS]) for source, target in batch]
            return [Forced(*of_pair) for of_pair in self._model.force(ended, heads)]

        problem = partial(pair_too_long, "RAM")
        return self._in_batches(force, pairs, batches, problem)

    def _in_batches(
        self,
        function: Callable[[Sequence[Item]], list[Result]],
        items: Sequence[Item],
        batches: Sequence[Sequence[int]],
        too_long: Callable[[Item], str],
    ) -> list[Result]:
        """Return the results of all items, in order, of batches of their indices."""
        of_batches = [[items[i] for i in batch] for batch in batches]
        found = in_threads(partial(in_halves, function, too_long=too_long), of_batches, self._threads)
        return in_order(batches, found)

    def of_worker(self, ask: Callable[[object], Any]) -> Engine:
        """Return this engine with one thread."""
        self._threads = 1
        return self


def plain_search(model: NativeModel, sentences: Sequence[Ids], options: SearchOptions) -> list[list[Hypothesis]]:
    """Return the hypotheses of a batch of sentences with `</s>`, which no option but a length limit restricts."""
    limits = [options.limit(len(ids), model.settings.longest) for ids in sentences]
    found = model.search(sentences, limits, (options.beam, options.n_best), options.rules(max(limits)))
    return [hypotheses(*of_sentence, options) for of_sentence in zip(*found, strict=True)]


class SearchRequest(NamedTuple):
    """The arguments of `Engine.search`, for what searches in its place."""

    sentences: Sequence[Ids]
    options: SearchOptions
    prefixes: Sequence[Ids] | None


class ForceRequest(NamedTuple):
    """The arguments of `Engine.force`."""

    pairs: Sequence[Pair]
    budget: int
    heads: Sequence[Head]


class RemoteEngine:
    """What has no engine of its own: another process, or another function, searches."""

    answers = None

    def __init__(self, engine: Engine, ask: Callable[[object], Any]) -> None:
        self.description, self.problem, self.threads = engine.description, engine.problem, engine.threads
        self.uses_cores, self.search_scale = engine.uses_cores, engine.search_scale
        self._ask = ask

    @property
    def runner(self) -> "BatchRunner":
        """Raise AssertionError: what computes is elsewhere."""
        raise AssertionError("a remote engine has no models")

    def search(
        self, sentences: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids] | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order."""
        found: list[list[Hypothesis]] = self._ask(SearchRequest(sentences, options, prefixes))
        return found

    def force(self, pairs: Sequence[Pair], budget: int, heads: Sequence[Head] = ()) -> list[Forced]:
        """Return log-probabilities and attention."""
        found: list[Forced] = self._ask(ForceRequest(pairs, budget, heads))
        return found

    def of_worker(self, ask: Callable[[object], Any]) -> Engine:
        """Raise AssertionError: a worker has no workers."""
        raise AssertionError("a worker has no workers")
