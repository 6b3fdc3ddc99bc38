"""Search for the translations of many sentences with torch.

Sentences are sorted by length, cut into batches, searched, and returned in order.

B sentences; S source length with `</s>`.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from nmt.batching.batch import pad
from nmt.config import RuntimeSettings
from nmt.decoding.beam import Hypothesis, Observer, beam_search
from nmt.decoding.models import BatchRunner, Models, StepModel, in_halves, in_order, length_batches, step_model
from nmt.decoding.options import SearchOptions, rules_for
from nmt.decoding.sampling import greedy_search, noise_for, sample_search
from nmt.errors import ConfigError
from nmt.kernels import kernels_for, precision_for
from nmt.model.transformer import Transformer, TransformerState
from nmt.text.tokenizer import EOS

_MIN_SENTENCES_TO_PREPARE = 5  # fewer are translated faster than weights are laid out
_MIN_PROCESS_TOKENS = 1024  # the fewest source tokens times beam for which one more process pays


class TorchEngine:
    """A torch model, which supports every option, or an ensemble of them."""

    def __init__(self, models: Sequence[Transformer], runtime: RuntimeSettings, processes: int = 1) -> None:
        """Take models, which must not change while the engine is used; on a CPU, they run in this many processes.

        Raises ConfigError for 8-bit weights if this machine cannot compute with them.
        """
        device = models[0].device
        self.kernels = kernels_for(device, precision_for(runtime, device, models[0].settings.dim))
        self.description = self.kernels.description
        self._models, self._processes, self._sentences = models, processes, 0
        # converted weights pay for one sentence already
        self._is_prepared = self.kernels.precision != "fp32"
        self.runner = self._runner()
        if self.kernels.precision == "int8" and not all(model.is_prepared for model in self.runner.models):
            raise ConfigError(
                "--precision int8: this needs a CPU with AVX-512 VNNI and a C++ compiler, and model.dim and "
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
        self._sentences += len(sentences)
        if self._sentences >= _MIN_SENTENCES_TO_PREPARE and not self._is_prepared:
            self._is_prepared = True
            self.runner = self._runner()
        return search_all(self.runner, sentences, options, prefixes)

    def _runner(self) -> BatchRunner:
        return BatchRunner(
            [model.for_inference(self.kernels, self._is_prepared) for model in self._models], self._processes
        )


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
    # beam search drops almost half of its hypotheses
    active = runner.models[0].kernels.active_hypotheses
    max_hypotheses = options.batch_tokens if active is None else active * min(2, options.width)
    batches = list(balanced_batches(lengths, options.width, options.batch_tokens, max_hypotheses, runner.processes))
    items = [[(sentences[i], prefixes[i]) for i in batch] for batch in batches]
    return in_order(batches, runner.run(partial(_search_batch, options=options), items))


def balanced_batches(
    lengths: Sequence[int], width: int, max_tokens: int, max_hypotheses: int, processes: int
) -> Iterator[list[int]]:
    """Cut sentences into batches of similar length, the longest first, that cost each process the same.

    In a batch, padded source tokens × width is at most `max_tokens`, and sentences × width about `max_hypotheses`. The
    batches of all processes are cut together and their sentences distributed in turn, so that the costs of two batches
    differ by at most one longest sentence.
    """
    processes = max(1, min(processes, sum(lengths) * width // _MIN_PROCESS_TOKENS))
    max_sentences = processes * max_hypotheses / width
    rounds = max(1, round(len(lengths) / max_sentences))  # somewhat larger batches rather than a small last one
    max_sentences = max(max_sentences, len(lengths) / rounds)
    for batch in length_batches(lengths, processes * max_tokens // width, max_sentences):
        yield from (batch[i::processes] for i in range(min(processes, len(batch))))


def _search_batch(
    models: Models, sentences: Sequence[tuple[Sequence[int], Sequence[int]]], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Search one batch of sentences with their prefixes, in halves if it does not fit into the memory of the device."""

    def found(part: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[Hypothesis]]:
        source, mask = pad([[*ids, EOS] for ids, _ in part])
        return search(step_model(models), source, mask, options, [prefix for _, prefix in part])

    def too_long(sentence: tuple[Sequence[int], Sequence[int]]) -> str:
        return (
            f"a sentence of {len(sentence[0]) + 1} tokens with a beam of {options.width} does not fit in the memory of"
        )

    return in_halves(found, sentences, models[0].device, too_long)


@torch.inference_mode()
def search(
    model: StepModel,
    source: Tensor,
    source_mask: Tensor | None,
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]] | None = None,
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Return up to n_best hypotheses of each sentence, best first; fewer only if no more exist.

    Source ids (B, S) and mask (B, S), True at tokens, on the CPU, are the input of the encoder; no mask means no
    padding. The result of a sentence does not depend on the other sentences of the batch, except for rounding. An
    observer receives the steps of a beam search; with it, a beam of 1 is one as well, and sampling is excluded. Raises
    ModelError if the model's numbers are NaN.
    """
    if not source.size(0):
        return []
    lengths = [source.size(1)] * source.size(0) if source_mask is None else source_mask.sum(1).tolist()
    prefixes = prefixes or [()] * source.size(0)
    # the longest outputs (B)
    sizes = zip(lengths, prefixes, strict=True)
    limits = torch.tensor([options.longest_output(length) + len(prefix) for length, prefix in sizes])
    rules = rules_for(options, prefixes, limits)
    state = model.start(source, source_mask)
    if options.sampling is not None:
        assert observer is None, "no beam search"
        sentences = [row[:length] for row, length in zip(source.tolist(), lengths, strict=True)]
        return sample_search(state, model.device, noise_for(sentences, limits, options), rules, options)
    if options.beam == 1 and observer is None:
        if isinstance(state, TransformerState):
            # another rule may forbid the largest logit, and the others are not precise
            state.screened = options.has_plain_choice and not any(prefixes)
        return greedy_search(state, model.device, limits, rules, options)
    return beam_search(state, model.device, limits, rules, options, observer)
