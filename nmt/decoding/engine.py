"""What translating asks of a model, whichever program runs it."""

from collections.abc import Sequence
from typing import Protocol

from nmt.config import RuntimeSettings
from nmt.decoding.batched_search import search_all
from nmt.decoding.ensemble import Ensemble
from nmt.decoding.hypothesis import Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rescoring import search_and_rescore
from nmt.decoding.workers import Workers
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer
from nmt.system.device import autocast, computes_in_bf16


class Engine(Protocol):
    """Searches for translations of sentences, on token ids."""

    @property
    def longest(self) -> int | None:
        """The most tokens, `</s>` included, that a sentence may have; None for any number."""

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        budget: int,
        constraints_of: Sequence[Constraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return each sentence's hypotheses, as `search_all` does: in order, best first, within a budget a batch.

        Raises ConfigError for options and demands that the engine does not know.
        """


_WORTH_PACKING = 4
"""A few sentences are through before weights are packed, and kernels made for them."""


class TorchEngine:
    """Our own model, which knows every option, or several that translate together."""

    def __init__(
        self,
        model: Transformer,
        runtime: RuntimeSettings,
        others: Sequence[Transformer] = (),
        process_count: int = 1,
    ) -> None:
        """Make the models ready to translate and no more to learn; on a CPU, in so many processes.

        Raises ConfigError if this machine cannot compute in eight bits and shall.
        """
        models = [one.eval() for one in (model, *others)]
        self._to_pack = [] if computes_in_bf16(runtime, model.device) else models
        if runtime.precision == "int8" and not all(self._pack(eight_bits=True)):
            raise ConfigError(
                "--precision int8: this needs a CPU with AVX-512 VNNI and a torch with oneDNN; leave it out, or export "
                "the model for CTranslate2 with --quantization int8"
            )
        self._model = model
        self._runtime = runtime
        self._ensemble = Ensemble(models) if others else None
        several = process_count > 1 and model.device.type == "cpu"
        self.workers = Workers(self._ensemble or model, runtime, process_count) if several else None

    @property
    def longest(self) -> int | None:
        """The most tokens of a sentence: learned positions end."""
        return (self._ensemble or self._model).longest

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        budget: int,
        constraints_of: Sequence[Constraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return each sentence's hypotheses, in the precision of the runtime."""
        if len(sentences) > _WORTH_PACKING:
            self._pack(eight_bits=False)
        with autocast(self._runtime, self._model.device):
            if self._ensemble is not None:
                _check_known_to_several(options)
                return search_all(self.workers or self._ensemble, sentences, options, budget, constraints_of)
            return search_and_rescore(self._model, sentences, options, budget, constraints_of, self.workers)

    def _pack(self, eight_bits: bool) -> list[bool]:
        """Pack the weights that are not yet; return where there was a way."""
        to_pack, self._to_pack = self._to_pack, []
        return [one.prepack(eight_bits) for one in to_pack]


def _check_known_to_several(options: SearchOptions) -> None:
    for key, unused in (("coverage_penalty", 0.0), ("repetition_penalty", 1.0)):
        if getattr(options, key) != unused:
            raise ConfigError(
                f"decode.{key}: found {getattr(options, key)}, but models that translate together cannot do that; "
                f"add --set decode.{key}={unused:g}, or give one --model"
            )
