"""Search for the translations of many sentences with torch.

Sentences are sorted by length, cut into batches, searched, and returned in order.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any

import torch

from nmt.config import RuntimeSettings
from nmt.decoding.batches import balanced_batches, in_halves, in_order
from nmt.decoding.forced_decoding import force_all
from nmt.decoding.models import BatchRunner, Models, release_memory
from nmt.decoding.native_engine import Engine, ForceRequest, RemoteEngine
from nmt.decoding.options import SearchOptions
from nmt.decoding.results import Forced, Head, Hypothesis, Pair, sentence_too_long
from nmt.decoding.search import search
from nmt.errors import ConfigError
from nmt.kernels.device import kernels_for, precision_for
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import EOS


class TorchEngine:
    """Models in torch, which supports every option, device and model; see `Engine`."""

    def __init__(self, models: Sequence[Transformer], runtime: RuntimeSettings) -> None:
        """Take models, which must not change while the engine is used.

        Raises ConfigError for 8-bit weights, which only the kernels in C++ compute with.
        """
        device = models[0].device
        if (precision := precision_for(runtime, device, models[0].settings.dim)) == "int8":
            raise ConfigError(
                "--precision int8: this needs a CPU, a C++ compiler, and model.dim and feed_forward in multiples of "
                "64; leave it out, or export the model for CTranslate2 with --quantization int8"
            )
        self.kernels = kernels_for(device, precision)
        self.description, self.problem = self.kernels.description, self.kernels.problem
        self.uses_cores, self.search_scale = self.kernels.uses_cores, self.kernels.search_scale
        self.runner = BatchRunner([model.for_inference(self.kernels) for model in models])

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order; see `search_all`."""
        return search_all(self.runner, sentences, options, prefixes)

    def force(self, pairs: Sequence[Pair], budget: int, heads: Sequence[Head] = ()) -> list[Forced]:
        """Return log-probabilities and attention of the first model, see `force_all`."""
        return force_all(self.runner, pairs, budget, heads)

    @property
    def threads(self) -> int:
        """The number of threads among which batches are divided."""
        return self.runner.threads

    def of_worker(self, ask: Callable[[object], Any]) -> Engine:
        """Return this engine with one thread, or of a GPU a remote one."""
        torch.set_num_threads(1)
        return self if self.uses_cores else RemoteEngine(self, ask)

    def answers(self, requests: Sequence[Any]) -> list[Any]:
        """Return the results for requests of remote engines; searches with equal options are one."""
        results: list[Any] = [None] * len(requests)
        searches: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            if isinstance(request, ForceRequest):
                results[number] = self.force(*request)
            else:
                searches.setdefault(request.options.model_dump_json(), []).append(number)
        for numbers in searches.values():
            joined = [requests[number] for number in numbers]
            sentences = [ids for one in joined for ids in one.sentences]
            prefixes = [prefix for one in joined for prefix in one.prefixes or [()] * len(one.sentences)]
            found = iter(self.search(sentences, joined[0].options, prefixes))
            for number, one in zip(numbers, joined, strict=True):
                results[number] = list(islice(found, len(one.sentences)))
        return results


def search_all(
    runner: BatchRunner,
    sentences: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence, best first, for source ids without `</s>`.

    A batch holds at most `options.batch_tokens` padded source tokens times beam, or less than a sentence more; a longer
    sentence is searched alone. A batch that does not fit into the memory of the device is halved. `prefixes` are the
    target ids that the hypotheses of each sentence begin with. Raises ConfigError if not even one sentence fits.
    """
    prefixes = prefixes or [()] * len(sentences)
    lengths = [len(ids) + 1 for ids in sentences]
    kernels = runner.models[0].kernels
    if kernels.steps_per_look > 1:
        batches = list(classes_of_lengths(lengths))
    else:
        # beam search drops almost half of its hypotheses
        active = kernels.active_hypotheses
        max_hypotheses = options.batch_tokens if active is None else active * min(2, options.width)
        batches = list(balanced_batches(lengths, options.width, options.batch_tokens, max_hypotheses, runner.threads))
    items = [[(sentences[i], prefixes[i]) for i in batch] for batch in batches]
    return in_order(batches, runner.run(partial(_search_batch, options=options), items))


def classes_of_lengths(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Divide sentences into classes of 1 … 16, 17 … 64, 65 … 256, … tokens, the longest first.

    A search on a GPU has space for the longest sentence of all in each slot, and any number of sentences.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for _, of_class in groupby(order, key=lambda i: max(1, (lengths[i] - 1).bit_length() - 3) // 2):
        yield list(of_class)


def _search_batch(
    models: Models, sentences: Sequence[tuple[Sequence[int], Sequence[int]]], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Search one batch of sentences with their prefixes, in halves if it does not fit into the memory of the device."""

    def found(part: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[Hypothesis]]:
        return search(models, [ids for ids, _ in part], options, [prefix for _, prefix in part])

    problem = partial(sentence_too_long, options.width, f"the memory of {models[0].device}")
    ended = [([*ids, EOS], prefix) for ids, prefix in sentences]
    return in_halves(found, ended, problem, partial(release_memory, models))
