"""Search with CTranslate2 in place of torch.

Its beam keeps the same hypotheses as `nmt.decoding.beam` at each step. It differs in five points:

* It stops as soon as the beam is full of finished hypotheses; ours continues while an active one can still be the best.
  With a length penalty of 0 and n-best 1, both stop at the same step.
* It normalizes by L^α only, so finished hypotheses are ranked here.
* It removes forbidden tokens before the softmax, so `log_prob` is higher than ours by about the probability that the
  model gives to `<unk>`, `<s>` and `<pad>`, which is close to 0.
* It applies rules on repetition before the softmax. Greedy search chooses the same tokens, and `log_prob` is computed
  afterwards; a beam would find other hypotheses, so these rules are refused with a beam above 1.
* At the length limit it ends only the best K active hypotheses.
"""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nmt.config import RuntimeSettings
from nmt.decoding.beam import Hypothesis, not_a_number
from nmt.decoding.models import in_order, length_batches
from nmt.decoding.options import NO_CONSTRAINTS, Constraints, SearchOptions
from nmt.errors import ConfigError, ModelError
from nmt.export.ctranslate2 import write_ctranslate2
from nmt.export.exported import Export, is_export, library, read_export
from nmt.model.checkpoint import load_model, resolve_model
from nmt.system.device import local_rank
from nmt.system.workers import available_cores
from nmt.text.tokenizer import EOS

_COMPUTE_TYPES = {"auto": "default", "fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
_SUPPORTED = {
    "beam", "n_best", "length_penalty", "max_length", "forbidden", "batch_tokens", "protect", "typography"
}  # fmt: skip
"""The search options that CTranslate2 supports, and those that only the translator uses."""
_SUPPORTED_BY_GREEDY = {"no_repeat_ngram"}  # search options that it supports with a beam of 1


class CTranslate2Engine:
    """A model exported for CTranslate2, ready to translate."""

    description, precision = "CTranslate2", None

    def __init__(self, directory: Path, export: Export, runtime: RuntimeSettings, parallel: int = 1) -> None:
        """Load the directory that `export` was read from; `parallel` is the number of batches translated at a time.

        Each batch uses all threads. Raises ConfigError if CTranslate2 or its support of the device is missing,
        ModelError if it cannot read the model.
        """
        ctranslate2 = library("ctranslate2")
        if runtime.device == "mps":
            raise ConfigError("runtime.device: found mps, but CTranslate2 has auto, cpu and cuda; set it to cpu")
        if runtime.device == "cuda" and not ctranslate2.get_cuda_device_count():
            raise ConfigError("runtime.device: found cuda, but CTranslate2 finds no GPU here; set it to auto or cpu")
        try:
            str(directory).encode()
        except UnicodeEncodeError:
            raise ModelError(f"{directory}: CTranslate2 opens only folders with names in UTF-8; rename it") from None
        rank, processes = local_rank()
        on_gpu = runtime.device != "cpu" and ctranslate2.get_cuda_device_count() > 0
        try:
            self._translator = ctranslate2.Translator(
                str(directory),
                runtime.device,
                device_index=rank if on_gpu else 0,
                compute_type=_COMPUTE_TYPES[runtime.precision],
                inter_threads=parallel,
                intra_threads=runtime.threads or max(1, available_cores() // processes),
            )
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"{directory}: CTranslate2 cannot load it: {error}") from None
        self._source = export.tokenizers.source.symbols
        self._target = export.tokenizers.target.symbols
        self._ids = {symbol: i for i, symbol in enumerate(self._target)}
        self.longest = export.longest

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        constraints_of: Sequence[Constraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order, as `TorchEngine.search` does.

        Raises ConfigError for options and constraints without support.
        """
        _check(options)
        if constraints_of and any(constraints != NO_CONSTRAINTS for constraints in constraints_of):
            raise ConfigError("CTranslate2 does not support constraints; translate with the original model")
        batches = length_batches([len(ids) + 1 for ids in sentences], options.batch_tokens // options.beam)
        sources = [[[self._source[token] for token in sentences[i]] for i in batch] for batch in batches]
        started = [self._start(of_batch, options) for of_batch in sources]
        found = []
        for of_batch, results in zip(sources, started, strict=True):
            pairs = zip(of_batch, results, strict=True)
            found.append([self._hypotheses(source, result.result(), options) for source, result in pairs])
        return in_order(batches, found)

    def _start(self, sentences: Sequence[list[str]], options: SearchOptions) -> list[Any]:
        """Queue a batch, longest sentence first; that one determines the length limit, without `</s>`."""
        started: list[Any] = self._translator.translate_batch(
            sentences,
            asynchronous=True,
            beam_size=options.beam,
            num_hypotheses=options.beam,
            length_penalty=options.length_penalty,
            suppress_sequences=[[self._target[i]] for i in options.forbidden],
            no_repeat_ngram_size=options.no_repeat_ngram or 0,
            return_end_token=True,
            return_scores=True,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=max(1, self._limit(sentences[0], options) - 1),
        )
        return started

    def _limit(self, source: list[str], options: SearchOptions) -> int:
        limit = options.longest_output(len(source) + 1)
        return limit if self.longest is None else min(limit, self.longest)

    def _hypotheses(self, source: list[str], result: Any, options: SearchOptions) -> list[Hypothesis]:
        """Cut translations at the length limit, and rank them by our normalization instead of L^α."""
        found = []
        limit = self._limit(source, options)
        has_rules = options.no_repeat_ngram is not None
        for pieces, score in zip(result.hypotheses, result.scores, strict=True):
            log_prob = score * len(pieces) ** options.length_penalty
            finished = pieces[-1] == self._target[EOS] and len(pieces) <= limit
            pieces = pieces[:-1] if finished else pieces[: limit - 1]
            if has_rules or not finished:
                log_prob = math.fsum(self._translator.score_batch([source], [pieces], max_input_length=0)[0].log_probs)
            if not log_prob <= 0:
                raise not_a_number()
            tokens = [self._ids[symbol] for symbol in pieces]
            found.append(Hypothesis(tokens, log_prob, log_prob / options.penalty(len(tokens) + 1)))
        return sorted(found, key=lambda hypothesis: -hypothesis.normalized)[: options.n_best]


@dataclass(frozen=True)
class ExportedModel(Export):
    """A model exported for CTranslate2, with the engine that runs it."""

    engine: CTranslate2Engine


def open_in_ctranslate2(directory: Path, runtime: RuntimeSettings, parallel: int = 1) -> ExportedModel:
    """Open an export for CTranslate2, or a model directory or a run, which is converted into a temporary folder.

    Raises ConfigError and ModelError as `CTranslate2Engine` does, and for an export to another format.
    """
    if not is_export(directory):
        loaded = load_model(resolve_model(directory), torch.device("cpu"))
        with tempfile.TemporaryDirectory() as folder:
            write_ctranslate2(Path(folder), loaded, "float32")
            return open_in_ctranslate2(Path(folder), runtime, parallel)
    export = read_export(directory)
    return ExportedModel(**vars(export), engine=CTranslate2Engine(directory, export, runtime, parallel))


def _check(options: SearchOptions) -> None:
    defaults = SearchOptions()
    supported = _SUPPORTED | _SUPPORTED_BY_GREEDY if options.beam == 1 else _SUPPORTED
    for key, value in options:
        if key not in supported and value != getattr(defaults, key):
            beyond = " with a beam above 1" if key in _SUPPORTED_BY_GREEDY else ""
            raise ConfigError(
                f"decode.{key}: found {value}, which CTranslate2 does not support{beyond}; leave it out, or translate "
                "with the original model"
            )
