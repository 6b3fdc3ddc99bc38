"""What translating asks of a model, whichever program runs it."""

from collections.abc import Sequence
from typing import Protocol

from nmt.config import RuntimeSettings
from nmt.decoding.corpus import search_all
from nmt.decoding.demand import Demand
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.model.transformer import Transformer
from nmt.runtime import autocast


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
        demands: Sequence[Demand] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return each sentence's hypotheses, as `search_all` does: in order, best first, within a budget a batch.

        Raises ConfigError for options and demands that the engine does not know.
        """


class TorchEngine:
    """Our own model, which knows every option."""

    def __init__(self, model: Transformer, runtime: RuntimeSettings) -> None:
        self._model = model.eval()
        self._runtime = runtime

    @property
    def longest(self) -> int | None:
        """The most tokens of a sentence: learned positions end."""
        return self._model.settings.longest

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        options: SearchOptions,
        budget: int,
        demands: Sequence[Demand] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return each sentence's hypotheses, in the precision of the runtime."""
        with autocast(self._runtime, next(self._model.parameters()).device):
            return search_all(self._model, sentences, options, budget, demands)
