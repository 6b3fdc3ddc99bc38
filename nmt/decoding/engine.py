"""The interface between translation and the program that runs a model, and the engine that uses torch."""

from collections.abc import Sequence
from typing import Protocol

from nmt.config import RuntimeSettings
from nmt.decoding.batch_runner import BatchRunner, OnProgress
from nmt.decoding.batched_search import search_all
from nmt.decoding.hypothesis import Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rescoring import needs_rescoring, search_and_rescore
from nmt.decoding.step_model import step_model
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer
from nmt.system.device import computes_in_bf16


class Engine(Protocol):
    """Searches for translations of sentences, on token ids."""

    @property
    def longest(self) -> int | None:
        """The most tokens of a sentence, `</s>` included; None without a limit."""

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        budget: int,
        constraints_of: Sequence[Constraints] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, in order; see `search_all`.

        Raises ConfigError for options and constraints that the engine does not support.
        """


_MIN_SENTENCES_TO_PACK = 5
"""Fewer sentences are translated faster than weights are packed."""


class TorchEngine:
    """A torch model, which supports every option, or an ensemble of them."""

    def __init__(self, models: Sequence[Transformer], runtime: RuntimeSettings, processes: int = 1) -> None:
        """Put the models into evaluation mode; on a CPU, they run in this many processes.

        Raises ConfigError for 8-bit weights if this machine cannot compute with them.
        """
        self.runner = BatchRunner([model.eval() for model in models], runtime, processes)
        self._to_pack = [] if computes_in_bf16(runtime, self.runner.device) else list(self.runner.models)
        if runtime.precision == "int8" and not all(self._pack(eight_bits=True)):
            raise ConfigError(
                "--precision int8: this needs a CPU with AVX-512 VNNI and a torch with oneDNN; leave it out, or export "
                "the model for CTranslate2 with --quantization int8"
            )

    @property
    def longest(self) -> int | None:
        """The most tokens of a sentence: learned positions are limited."""
        return step_model(self.runner.models).longest

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        budget: int,
        constraints_of: Sequence[Constraints] | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, in the precision of the runtime."""
        if len(sentences) >= _MIN_SENTENCES_TO_PACK:
            self._pack(eight_bits=False)
        if len(self.runner.models) > 1:
            _check_supported_by_ensembles(options)
        run = search_and_rescore if needs_rescoring(options) else search_all
        return run(self.runner, sentences, options, budget, constraints_of, on_progress)

    def _pack(self, eight_bits: bool) -> list[bool]:
        """Pack the weights of models once; return whether each could be packed."""
        to_pack, self._to_pack = self._to_pack, []
        return [model.prepack(eight_bits) for model in to_pack]


def _check_supported_by_ensembles(options: SearchOptions) -> None:
    for key, unused in (("coverage_penalty", 0.0), ("repetition_penalty", 1.0)):
        if getattr(options, key) != unused:
            raise ConfigError(
                f"decode.{key}: found {getattr(options, key)}, but models that translate together cannot do that; "
                f"add --set decode.{key}={unused:g}, or give one --model"
            )
