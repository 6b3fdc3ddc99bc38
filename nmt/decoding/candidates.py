"""The one costly part of a search step besides the model: from logits over the vocabulary to the few best tokens.

B sentences, K beam, V vocabulary, C candidates a hypothesis.
"""

from typing import NamedTuple

from torch import Tensor


class Candidates(NamedTuple):
    """The 2·K best ways to go on in each sentence, best first, on the CPU; each (B, 2K)."""

    log_probs: Tensor
    parents: Tensor
    tokens: Tensor


def best_candidates(logits: Tensor, normalizers: Tensor, log_probs: Tensor) -> Candidates:
    """Choose from logits (B, K, V) the 2·K best continuations of hypotheses with log_probs (B, K).

    2·K are enough for K that go on, for each hypothesis can end in one way only. Among the 2·K best of a sentence
    there are no more than 2·K of one hypothesis, and within one hypothesis logits rank as log-probabilities do: so only
    its 2·K largest logits are ever normalised, log p = logit − normalizer (B, K, 1), which is exact.
    Equal candidates rank by beam.
    """
    beam = logits.size(1)
    values, tokens = logits.topk(min(2 * beam, logits.size(-1)))  # (B, K, C)
    totals = (log_probs.unsqueeze(-1) + (values - normalizers)).flatten(1)  # (B, K·C)
    best, positions = totals.sort(dim=1, descending=True, stable=True)
    positions = positions[:, : 2 * beam]
    chosen = tokens.flatten(1).gather(1, positions)
    return Candidates(best[:, : 2 * beam].cpu(), (positions // values.size(-1)).cpu(), chosen.cpu())
