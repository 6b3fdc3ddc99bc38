"""Search for the translations of many sentences with torch.

Sentences are sorted by length, cut into batches, searched, and returned in order.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any, Self, TypeVar

import torch

from nmt.config import RuntimeSettings
from nmt.decoding.batches import balanced_batches, in_batches, in_threads, length_batches
from nmt.decoding.engine import Engine, ForceRequest, Ids, RemoteEngine
from nmt.decoding.forced_decoding import force
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Forced, Hypothesis, Pair, pair_too_long, sentence_too_long
from nmt.decoding.search import Models, search
from nmt.errors import ConfigError
from nmt.kernels.device import kernels_for, precision_for, release_cached_blocks
from nmt.kernels.native_search import ACTIVE_HYPOTHESES
from nmt.text.tokenizer import EOS

Batch = TypeVar("Batch")
Result = TypeVar("Result")

# A search on a GPU that is kept with its recordings must not run twice at a time; and while an engine records, no other
# one may wait for the GPU or release its memory.
_LOCK = threading.Lock()


class TorchEngine(Engine):
    """Models in torch, in evaluation mode on one device; it supports every option, device and model, see `Engine`.

    On a CPU, several threads compute one batch each; on other devices, batches are computed one at a time.
    """

    def __init__(self, models: Models) -> None:
        self.models, self.kernels = models, models[0].kernels
        self.description = self.kernels.description
        self.uses_cores, self.search_scale = self.kernels.uses_cores, self.kernels.search_scale
        self.threads = torch.get_num_threads() if self.uses_cores else 1

    @classmethod
    def of_models(cls, models: Models, runtime: RuntimeSettings) -> Self:
        """Return an engine with copies of models for inference; these must not change while it is used.

        Raises ConfigError for 8-bit weights, which only the kernels in C++ compute with.
        """
        device = models[0].device
        if (precision := precision_for(runtime, device, models[0].settings.dim)) == "int8":
            raise ConfigError(
                "precision: int8 needs a CPU, a C++ compiler, model.dim and feed_forward in multiples of 64, scaled_dot"
                " and no relative positions; leave it out, or export for CTranslate2 with --quantization int8"
            )
        kernels = kernels_for(device, precision)
        return cls([model.for_inference(kernels) for model in models])

    @property
    def problem(self) -> str | None:
        """The reason why faster kernels cannot be used here; it may be set during a search only."""
        return self.kernels.problem

    @property
    def torch_engine(self) -> Self:
        """This engine."""
        return self

    def search(
        self, sentences: Sequence[Ids], options: SearchOptions, prefixes: Sequence[Ids] | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, see `Engine.search`.

        A batch holds at most `options.batch_tokens` padded source tokens times beam, plus less than one sentence; a
        longer sentence is searched alone. On a CUDA device, it holds all sentences of a class of lengths, and
        `Kernels.search_size` limits how many of them are searched at a time. A batch that does not fit into the memory
        of the device is halved. Raises ConfigError if not even one sentence fits.
        """
        prefixes = prefixes or [()] * len(sentences)
        lengths = [len(ids) + 1 for ids in sentences]
        if self.kernels.steps_per_fetch > 1:
            # plain attention reads all positions of a slot, also in a search of shorter sentences
            is_plain = not all(model.attends_by_kernels for model in self.models)
            batches = list(classes_of_lengths(lengths, 16 if is_plain else 64))
        else:
            most = ACTIVE_HYPOTHESES if self.uses_cores else options.batch_tokens
            batches = list(balanced_batches(lengths, options.width, options.batch_tokens, most, self.threads))

        def function(batch: Sequence[tuple[Ids, Ids]]) -> list[list[Hypothesis]]:
            return search(self.models, [ids for ids, _ in batch], options, [prefix for _, prefix in batch])

        items = [([*ids, EOS], prefix) for ids, prefix in zip(sentences, prefixes, strict=True)]
        too_long = partial(sentence_too_long, options.width, f"the memory of {self.kernels.device}")
        return in_batches(items, batches, function, self.run, too_long, self._release_memory)

    def force(self, pairs: Sequence[Pair], budget: int, with_attention: bool = False) -> list[Forced]:
        """Return log-probabilities and attention of the first model, see `Engine.force`."""
        assert not self.models[0].training, "dropout would change the probabilities"
        batches = length_batches([max(map(len, pair)) + 1 for pair in pairs], budget)
        too_long = partial(pair_too_long, f"the memory of {self.kernels.device}")
        function = partial(force, self.models[0], with_attention)
        return in_batches(pairs, batches, function, self.run, too_long, self._release_memory)

    def run(self, function: Callable[[Batch], Result], batches: Sequence[Batch]) -> list[Result]:
        """Return the results of a function for each batch, in order. Several threads may call this method."""
        if not self.uses_cores:
            with _LOCK:
                return list(map(function, batches))
        try:
            return in_threads(function, batches, self.threads, partial(torch.set_num_threads, 1))
        finally:
            torch.set_num_threads(self.threads)

    def _release_memory(self) -> None:
        """Release device memory that is kept for reuse."""
        self.kernels.release_memory()
        release_cached_blocks(self.kernels.device)

    def for_worker(self, call: Callable[[object], Any]) -> Engine:
        """Return this engine with one thread; on a GPU, a remote engine."""
        torch.set_num_threads(1)
        self.threads = 1
        return self if self.uses_cores else RemoteEngine(self, call)

    def answer(self, requests: Sequence[Any]) -> list[Any]:
        """Return the results for requests of remote engines; searches with equal options are joined."""
        results: list[Any] = [None] * len(requests)
        searches: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            if isinstance(request, ForceRequest):
                results[number] = self.force(*request)
            else:
                searches.setdefault(request.options.model_dump_json(), []).append(number)
        for numbers in searches.values():
            joined = [requests[number] for number in numbers]
            sentences = [ids for batch in joined for ids in batch.sentences]
            prefixes = [prefix for batch in joined for prefix in batch.prefixes or [()] * len(batch.sentences)]
            hypotheses = iter(self.search(sentences, joined[0].options, prefixes))
            for number, batch in zip(numbers, joined, strict=True):
                results[number] = list(islice(hypotheses, len(batch.sentences)))
        return results


def classes_of_lengths(lengths: Sequence[int], first: int = 64) -> Iterator[list[int]]:
    """Divide sentences into classes of 1 … 64, 65 … 256, 257 … 1024, … tokens, the longest first.

    A search on a GPU has space for the longest sentence of all in each slot, and any number of sentences. `first` is
    the longest of the first class, a power of four.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for _, indices in groupby(order, key=lambda i: -(-(max(first, lengths[i]) - 1).bit_length() // 2)):
        yield list(indices)
