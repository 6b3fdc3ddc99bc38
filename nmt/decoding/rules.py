"""The rules on the output of a search: they set logits to -inf before the best tokens are chosen.

N rows, one for each hypothesis; P positions of its tokens, V vocabulary, G tokens of an n-gram, W n-grams.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from nmt.kernels.reference import forbid
from nmt.text.tokenizer import PAD


class Prefixes(NamedTuple):
    """The hypotheses whose next tokens the logits are for, and constraints on these tokens."""

    tokens: Tensor  # (N, P) with `<s>`; arbitrary from their lengths on
    lengths: Tensor  # (N)
    must_end: Tensor  # (N) whether the longest output is reached
    required: Tensor | None  # (N) the next token of a required prefix, -1 after its end; None: no prefixes


def apply_rules(logits: Tensor, prefixes: Prefixes, no_repeat_ngram: int | None) -> None:
    """Set the logits (N, V) of tokens that may not be generated to -inf, in place.

    A rule only lowers logits, because beam search relies on an upper bound of all extensions; the probability of a
    forbidden token is not distributed among the others. At least one token remains: `</s>`, because no n-gram contains
    it, or the required one, for which no other rule applies.
    """
    required = None if prefixes.required is None else prefixes.required.unsqueeze(1)
    required_logits = None if required is None else logits.gather(1, required.clamp(min=0))
    if no_repeat_ngram is not None:
        _forbid_repeated(logits, prefixes, no_repeat_ngram)
    forbid(logits, prefixes.must_end)
    if required is not None and required_logits is not None:
        logits.masked_fill_(required >= 0, -torch.inf)
        restored = torch.where(required >= 0, required_logits, logits.gather(1, required.clamp(min=0)))
        logits.scatter_(1, required.clamp(min=0), restored)


def _forbid_repeated(logits: Tensor, prefixes: Prefixes, size: int) -> None:
    """Forbid a second occurrence of any run of G tokens (Paulus et al. 2018, section 2.5), `<s>` excluded."""
    tokens, lengths = prefixes.tokens.long(), prefixes.lengths.unsqueeze(1)
    if tokens.size(1) <= size:
        return
    ngrams = tokens[:, 1:].unfold(1, size, 1)  # (N, W, G)
    last_positions = lengths - torch.arange(size - 1, 0, -1, device=tokens.device)  # (N, G-1) of the last tokens
    last = tokens.gather(1, last_positions.clamp(min=0)).unsqueeze(1)
    complete = torch.arange(ngrams.size(1), device=tokens.device) + size < lengths  # (N, W) the n-gram is all generated
    repeats = (ngrams[..., :-1] == last).all(2) & complete
    # padding is never generated anyway
    logits.scatter_(1, torch.where(repeats, ngrams[..., -1], PAD), -torch.inf)
