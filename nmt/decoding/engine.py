"""Engines: their interface, the engine on the kernels in C++, and one in another process; none loads torch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from nmt.config import RuntimeSettings
from nmt.decoding.batches import balanced_batches, in_batches, in_threads, length_batches
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Forced, Hypothesis, Pair, hypotheses, pair_too_long, sentence_too_long
from nmt.kernels.machine import prefers_bf16, thread_count
from nmt.kernels.native import ENCODER_ROWS, NativeModel
from nmt.kernels.native_search import ACTIVE_HYPOTHESES, SearchBatch, search
from nmt.model.stored import LoadedModel
from nmt.text.tokenizer import EOS

if TYPE_CHECKING:
    from nmt.decoding.torch_engine import TorchEngine

Ids = Sequence[int]
Batch = TypeVar("Batch")
Result = TypeVar("Result")


class Engine(ABC):
    """Search and forced decoding with one model or several."""

    description: str  # implementation, kind of device, and precision
    uses_cores: bool  # whether batches are searched in parallel, one on each core
    search_scale: int  # the factor on the default `decode.batch_tokens`
    threads: int  # among which batches are divided
    # computes requests of remote engines; None if there are none of this engine
    answer: Callable[[Sequence[Any]], list[Any]] | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a translator cannot be pickled, nor copied with its models: load it in each process")

    @property
    def problem(self) -> str | None:
        """The reason why faster kernels cannot be used here, None if they are used."""
        return None

    @property
    def torch_engine(self) -> "TorchEngine":
        """The models in torch, for all but search and forced decoding; loading them takes seconds."""
        raise AssertionError("this engine has no models")

    @abstractmethod
    def search(
        self, sentences: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids] | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order, for source ids without `</s>`.

        `prefixes` are the target ids that the hypotheses of each sentence begin with.
        """

    @abstractmethod
    def force(self, pairs: Sequence[Pair], budget: int, with_attention: bool = False) -> list[Forced]:
        """Return the log-probabilities of given translations, and attention to their sources, by the first model.

        This is forced decoding: the decoder reads the given tokens in place of those that a search generates.

        A batch holds at most `budget` padded tokens, counted on the longer side; a longer pair is a batch by itself.
        """

    def for_worker(self, call: Callable[[object], Any]) -> "Engine":
        """Return the engine for a fork of this process; `call` sends a request to `answer` in this process."""
        raise AssertionError("this engine has no workers")


class NativeEngine(Engine):
    """Models laid out for the kernels in C++; torch is loaded for what is neither a search nor forced decoding."""

    uses_cores, search_scale = True, 1

    def __init__(self, models: Sequence[NativeModel], load: "Callable[[], TorchEngine]", threads: int) -> None:
        self._models, self._load, self.threads = models, load, threads
        self.description = f"compiled kernels, cpu, {models[0].precision}"

    @cached_property
    def torch_engine(self) -> "TorchEngine":
        """These models in torch."""
        return self._load()

    def search(
        self, sentences: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids] | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, see `Engine.search`.

        A batch that does not fit into RAM is halved. Raises ConfigError if not even one sentence fits.
        """
        lengths, prefixes = [len(ids) + 1 for ids in sentences], prefixes or [()] * len(sentences)
        sizes = options.width, options.batch_tokens, ACTIVE_HYPOTHESES, self.threads
        items = [([*ids, EOS], prefix) for ids, prefix in zip(sentences, prefixes, strict=True)]
        too_long = partial(sentence_too_long, options.width, "RAM")
        function = partial(self._search, options=options)
        return in_batches(items, list(balanced_batches(lengths, *sizes)), function, self._run, too_long)

    def _search(self, batch: Sequence[tuple[Ids, Ids]], options: SearchOptions) -> list[list[Hypothesis]]:
        """Search a batch of source ids with `</s>` and their prefixes."""
        most = min(model.settings.longest for model in self._models)
        sentences, prefixes = zip(*batch, strict=True)
        limits = [options.limit(len(ids), most, len(prefix)) for ids, prefix in batch]
        noise = options.noise(sentences, limits)
        search_batch = SearchBatch(sentences, limits, prefixes if any(prefixes) else None, noise)
        columns = search(self._models, search_batch, (options.width, options.n_best), options.rules(max(limits)))
        return [hypotheses(*columns_of_sentence, options) for columns_of_sentence in zip(*columns, strict=True)]

    def force(self, pairs: Sequence[Pair], budget: int, with_attention: bool = False) -> list[Forced]:
        """Return log-probabilities and attention, see `Engine.force`."""
        batches = length_batches([max(map(len, pair)) + 1 for pair in pairs], min(budget, ENCODER_ROWS))

        def force(batch: Sequence[Pair]) -> list[Forced]:
            pairs_with_eos = [([*source, EOS], [*target, EOS]) for source, target in batch]
            return [Forced(*result) for result in self._models[0].force(pairs_with_eos, with_attention)]

        return in_batches(pairs, batches, force, self._run, partial(pair_too_long, "RAM"))

    def _run(self, function: Callable[[Batch], Result], batches: Sequence[Batch]) -> list[Result]:
        return in_threads(function, batches, self.threads)

    def for_worker(self, call: Callable[[object], Any]) -> Engine:
        """Return this engine with one thread."""
        self.threads = 1
        return self


def engine_for(models: Sequence[LoadedModel], runtime: RuntimeSettings, threads: int | None) -> Engine:
    """Return the engine that searches with one model or several.

    On a CPU, models are laid out for the C++ kernels, and loaded into torch only when needed; others are in torch.
    `threads`, unless None, also sets the threads of torch.
    """

    def torch_engine() -> "TorchEngine":
        import torch

        from nmt.decoding.torch_engine import TorchEngine

        if threads is not None:
            torch.set_num_threads(threads)
        return TorchEngine.of_models([model.model for model in models], runtime)

    precision = runtime.precision
    if precision == "auto":
        precision = "bf16" if prefers_bf16(models[0].settings.dim) else "fp32"
    natives = [native for model in models if (native := model.native(precision)) is not None]
    if len(natives) == len(models):
        return NativeEngine(natives, torch_engine, threads or thread_count(runtime))
    return torch_engine()


class SearchRequest(NamedTuple):
    """The arguments of `Engine.search`, as sent by a remote engine."""

    sentences: Sequence[Ids]
    options: SearchOptions
    prefixes: Sequence[Ids] | None


class ForceRequest(NamedTuple):
    """The arguments of `Engine.force`."""

    pairs: Sequence[Pair]
    budget: int
    with_attention: bool


class RemoteEngine(Engine):
    """An engine without models: it sends requests to another process, or to another function."""

    def __init__(self, engine: Engine, call: Callable[[object], Any]) -> None:
        self.description, self.threads = engine.description, engine.threads
        self.uses_cores, self.search_scale = engine.uses_cores, engine.search_scale
        self._call = call

    def search(
        self, sentences: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids] | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order."""
        if not sentences:  # a reply may come only after the searches of other processes
            return []
        hypotheses: list[list[Hypothesis]] = self._call(SearchRequest(sentences, options, prefixes))
        return hypotheses

    def force(self, pairs: Sequence[Pair], budget: int, with_attention: bool = False) -> list[Forced]:
        """Return log-probabilities and attention."""
        if not pairs:
            return []
        forced: list[Forced] = self._call(ForceRequest(pairs, budget, with_attention))
        return forced
