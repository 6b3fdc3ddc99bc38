"""Search for the translations of many sentences with torch.

Sentences are sorted by length, cut into batches, searched, and returned in order.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any, NamedTuple

from nmt.config import RuntimeSettings
from nmt.decoding.beam import Hypothesis
from nmt.decoding.models import BatchRunner, Models, RemoteRunner, in_halves, in_order, length_batches
from nmt.decoding.options import SearchOptions
from nmt.decoding.search import search
from nmt.errors import ConfigError
from nmt.kernels import kernels_for, precision_for
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import EOS

_MIN_THREAD_TOKENS = 1024  # the fewest source tokens times beam for which one more thread pays


class TorchEngine:
    """A torch model, which supports every option, or an ensemble of them."""

    def __init__(self, models: Sequence[Transformer], runtime: RuntimeSettings) -> None:
        """Take models, which must not change while the engine is used.

        Raises ConfigError for 8-bit weights if this machine cannot compute with them.
        """
        device = models[0].device
        self.kernels = kernels_for(device, precision_for(runtime, device, models[0].settings.dim))
        self.description = self.kernels.description
        self.runner = BatchRunner([model.for_inference(self.kernels) for model in models])
        if self.kernels.precision == "int8" and not all(model.is_prepared for model in self.runner.models):
            raise ConfigError(
                "--precision int8: this needs Linux, a CPU with AVX2 or AVX-512 and a C++ compiler, and model.dim and "
                "feed_forward in multiples of 64; leave it out, or export the model for CTranslate2 with "
                "--quantization int8"
            )

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order; see `search_all`."""
        return search_all(self.runner, sentences, options, prefixes)


class SearchRequest(NamedTuple):
    """The arguments of `TorchEngine.search`, for what searches in its place."""

    sentences: Sequence[Sequence[int]]
    options: SearchOptions
    prefixes: Sequence[Sequence[int]] | None


class RemoteEngine:
    """What a worker process has in place of an engine: the process that started it, or another function, searches."""

    def __init__(self, engine: TorchEngine, ask: Callable[[object], Any]) -> None:
        self.kernels, self.description, self._ask = engine.kernels, engine.description, ask
        self.runner: BatchRunner = RemoteRunner(engine.runner, ask)

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order."""
        found: list[list[Hypothesis]] = self._ask(SearchRequest(sentences, options, prefixes))
        return found


def answers(engine: TorchEngine, requests: Sequence[Any]) -> list[Any]:
    """Return what the engine computes for requests of remote ones; searches with equal options are one."""
    results: list[Any] = [None] * len(requests)
    searches: dict[str, list[int]] = {}
    for number, request in enumerate(requests):
        if isinstance(request, SearchRequest):
            searches.setdefault(request.options.model_dump_json(), []).append(number)
        else:
            results[number] = engine.runner.run(*request)
    for numbers in searches.values():
        joined = [requests[number] for number in numbers]
        sentences = [ids for one in joined for ids in one.sentences]
        prefixes = [prefix for one in joined for prefix in one.prefixes or [()] * len(one.sentences)]
        found = iter(engine.search(sentences, joined[0].options, prefixes))
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


def balanced_batches(
    lengths: Sequence[int], width: int, max_tokens: int, max_hypotheses: int, threads: int
) -> Iterator[list[int]]:
    """Cut sentences into batches of similar length, the longest first, that cost each thread the same.

    In a batch, padded source tokens × width is at most `max_tokens`, and sentences × width about `max_hypotheses`. The
    batches of all threads are cut together and their sentences distributed in turn, so that the costs of two batches
    differ by at most one longest sentence.
    """
    threads = max(1, min(threads, sum(lengths) * width // _MIN_THREAD_TOKENS))
    max_sentences = threads * max_hypotheses / width
    rounds = max(1, round(len(lengths) / max_sentences))  # somewhat larger batches rather than a small last one
    max_sentences = max(max_sentences, len(lengths) / rounds)
    for batch in length_batches(lengths, threads * max_tokens // width, max_sentences):
        yield from (batch[i::threads] for i in range(min(threads, len(batch))))


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
        return search(models, [[*ids, EOS] for ids, _ in part], options, [prefix for _, prefix in part])

    def too_long(sentence: tuple[Sequence[int], Sequence[int]]) -> str:
        return (
            f"a sentence of {len(sentence[0]) + 1} tokens with a beam of {options.width} does not fit in the memory of"
        )

    return in_halves(found, sentences, models[0].kernels, too_long)
