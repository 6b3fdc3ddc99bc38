"""What a search may not say, or not so gladly: rules that change logits before the best are chosen.

B sentences still searched, K beam, L length so far with `<s>`, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from nmt.decoding.demand import Demand
from nmt.decoding.options import SearchOptions
from nmt.text.tokenizer import EOS


class Rule(Protocol):
    """One rule. What it forbids gets -inf; the probability that it had is shared out among no others."""

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Change logits (B, K, V) in place.

        The hypotheses have said (B, K, L); sentences (B) are their places among those asked for. Both are on the CPU.
        """


def rules_for(options: SearchOptions, demands: Sequence[Demand], limits: Tensor) -> list[Rule]:
    """Return the rules in the order in which they apply, for sentences with demands and longest outputs (B)."""
    return [Forbidden(options.forbidden), EndAt(limits)]


@dataclass(frozen=True)
class Forbidden:
    """Tokens that are never said."""

    tokens: tuple[int, ...]

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Forbid them."""
        logits[..., list(self.tokens)] = float("-inf")


@dataclass(frozen=True)
class EndAt:
    """The longest outputs, `</s>` included: at its limit (B) a sentence can only end."""

    limits: Tensor

    def apply(self, logits: Tensor, said: Tensor, sentences: Tensor) -> None:
        """Forbid all but `</s>` where the limit is reached."""
        must_end = self.limits[sentences] == said.size(-1)
        if must_end.any():
            rows = must_end.nonzero().squeeze(1).to(logits.device)
            ends = logits[rows, ..., EOS]
            logits[rows] = float("-inf")
            logits[rows, ..., EOS] = ends
