"""Batches of round numbers of tokens, so that few kernels are compiled for them."""

import torch

from nmt.batching.batch import Batch, Group
from nmt.text.tokenizer import BOS, EOS, PAD

_ROUND = 64


def filled(batch: Batch, longest: int | None) -> Batch:
    """Return the batch with one more pair, which says nothing and makes both sides a multiple of 64 tokens long.

    oneDNN compiles a product anew for every number of rows, and holds on to 0.2 to 0.3 MiB for each as long as the
    process lives, whatever the capacity of its cache (benchmarks/RESULTS.md). Batches have ever new numbers of tokens.
    Small batches become at most one token in 16 longer. The model bears sentences of `longest` tokens, None: of any.
    """
    sides = zip(*((group.source.numel(), group.target_out.numel()) for group in batch.groups), strict=True)
    source, target = (_missing(sum(side), longest or _ROUND) for side in sides)
    if not source or not target:
        return batch
    words, dummy = torch.full((1, source), PAD), torch.full((1, target), PAD)
    said = dummy.clone()
    words[0, 0], said[0, 0] = EOS, BOS
    return Batch((*batch.groups, Group(words, said, dummy, words != PAD)), batch.source_tokens, batch.target_tokens)


def _missing(tokens: int, longest: int) -> int:
    """Return how many tokens, at least one, lead to the next multiple; 0 if there are so few that none is worth it."""
    multiple = min(_ROUND, longest, 1 << max(0, tokens.bit_length() - 5))
    return multiple - tokens % multiple if multiple > 1 else 0
