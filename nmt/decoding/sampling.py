"""Greedy search and sampling, which extend each hypothesis by one token at a time.

B sentences, K samples of each, N active hypotheses, T longest output, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nmt.config import Sampling
from nmt.decoding.beam import Beams, extended
from nmt.decoding.options import SearchOptions
from nmt.system.device import seed_for
from nmt.text.tokenizer import EOS


def extend_each(beams: Beams, log_probs: Tensor, tokens: Tensor) -> Beams:
    """Return the state after each hypothesis is extended by its chosen token, of this log-probability, both (B, K)."""
    totals = beams.log_probs + log_probs
    active = totals > -torch.inf  # NaN fails this comparison, too
    ends = active & (tokens == EOS)
    of_hypothesis = ends.unsqueeze(2)
    beams = replace(
        beams,
        finished_log_probs=torch.where(ends, totals, beams.finished_log_probs),
        finished_lengths=torch.where(ends, beams.lengths.unsqueeze(1), beams.finished_lengths),
        finished_tokens=torch.where(of_hypothesis, beams.history[:, :, 0], beams.finished_tokens),
    )
    return extended(beams, totals, tokens, active & ~ends)


def noise_for(sentences: Sequence[Sequence[int]], limits: Sequence[int], options: SearchOptions) -> Tensor:
    """Return a random number in [0, 1) for each sentence, sample and position (B, K, T), 0 beyond a sentence's limit.

    It is a function of the source ids and the indices of sample and position only: a sentence gets the same samples in
    any batch. (Philox, Salmon et al. 2011, is a counter-based generator.)
    """
    noise = torch.zeros(len(sentences), options.width, max(limits))
    for row, ids, limit in zip(noise, sentences, limits, strict=True):
        for sample, numbers in enumerate(row):
            key = seed_for("sampling", sample, *ids)
            drawn = np.random.Generator(np.random.Philox(key=key)).random(limit, dtype=np.float32)
            numbers[:limit] = torch.from_numpy(drawn)
    return noise


def draw(logits: Tensor, noise: Tensor, sampling: Sampling) -> Tensor:
    """Return a token (N) for each row of logits (N, V) and each number in [0, 1) of the noise (N).

    Inverse transform sampling: the token into whose share of [0, 1) the number falls. Shares are in the order of the
    vocabulary, so that rounding moves their ends a little and never swaps two. Tokens that are as probable as the last
    one of top_p are kept too.
    """
    logits = (logits - logits.amax(-1, keepdim=True)) / sampling.temperature
    probabilities = logits.softmax(-1)
    if sampling.top_p < 1:
        ranked = probabilities.sort(-1, descending=True).values
        before = ranked.cumsum(-1) - ranked  # the first has nothing before it and is kept
        last = ranked.masked_fill(before >= sampling.top_p, 1.0).amin(-1, keepdim=True)
        probabilities = probabilities.masked_fill(probabilities < last, 0.0)
    ends = probabilities.cumsum(-1)
    # a product with a number below 1 is less than the sum of all shares, also after rounding
    return (ends <= noise.unsqueeze(-1) * ends[..., -1:]).sum(-1)
