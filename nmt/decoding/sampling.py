"""Sampling: translations drawn at random, token by token.

B sentences, K samples a sentence, N rows: samples that still grow. L length so far with `<s>`, T longest output,
V vocabulary.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.config import Sampling
from nmt.decoding.hypothesis import Hypothesis, not_a_number
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import Rule
from nmt.decoding.step_model import DecoderState
from nmt.system.device import seed_for
from nmt.text.tokenizer import BOS, EOS


def sample_search(
    steps: DecoderState,
    device: torch.device,
    limits: Tensor,
    rules: Sequence[Rule],
    options: SearchOptions,
    noise: Tensor,
) -> list[list[Hypothesis]]:
    """Return K samples of each sentence, the most probable first, for steps just started and longest outputs (B).

    Samples are independent, so that they may be equal. The same noise (B, K, T) gives the same samples: `noise_for`.
    What rules and temperature do to the probabilities decides what is drawn; `log_prob` is the model's own.
    """
    assert options.sampling is not None
    count, samples, longest = noise.shape
    said = torch.full((count * samples, 1 + longest), EOS)  # (B·K, 1 + T)
    said[:, 0] = BOS
    log_probs = torch.zeros(count * samples, longest)
    numbers = noise.flatten(0, 1)
    live = torch.arange(count * samples)
    steps.select(torch.arange(count, device=device).repeat_interleave(samples))
    for length in range(1, longest + 1):
        so_far, sentences = said[live, :length], live // samples
        logits = torch.cat(list(steps.step(so_far[:, -1].to(device)))).float()
        own = logits.log_softmax(-1)
        for rule in rules:
            rule.apply(logits, so_far, sentences)
        tokens = draw(logits, numbers[live, length - 1].to(device), options.sampling)
        said[live, length] = tokens.cpu()
        log_probs[live, length - 1] = own.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).cpu()
        if log_probs[live, length - 1].isnan().any():
            raise not_a_number()
        rows = (said[live, length] != EOS).nonzero().squeeze(1)
        if not rows.numel():
            break
        if rows.numel() < live.numel():
            live = live[rows]
            steps.select(rows.to(device))
    drawn = iter(zip(said[:, 1:].tolist(), log_probs.tolist(), strict=True))
    found = [[_hypothesis(*next(drawn), options) for _ in range(samples)] for _ in range(count)]
    return [sorted(of_one, key=lambda hypothesis: -hypothesis.log_prob) for of_one in found]


def noise_for(sentences: Sequence[Sequence[int]], limits: Tensor, options: SearchOptions) -> Tensor:
    """Return a number in [0, 1) for each sentence, sample and place (B, K, T), 0 beyond a sentence's limit.

    It is a function of the seed, the sentence's ids, and the numbers of sample and place, and of nothing else: the same
    sentence gets the same samples in any company. (Philox, Salmon et al. 2011, counts; it carries no state along.)
    """
    assert options.sampling is not None
    noise = torch.zeros(len(sentences), options.width, int(limits.max()))
    for row, ids, limit in zip(noise, sentences, limits.tolist(), strict=True):
        for sample, places in enumerate(row):
            key = seed_for("sampling", options.sampling.seed, sample, *ids)
            numbers = np.random.Generator(np.random.Philox(key=key)).random(limit, dtype=np.float32)
            places[:limit] = torch.from_numpy(numbers)
    return noise


def draw(logits: Tensor, noise: Tensor, sampling: Sampling) -> Tensor:
    """Return a token (N) for each row of logits (N, V) and each number in [0, 1) of the noise (N).

    It is the token whose share of [0, 1) the number falls into; shares lie in the order of the vocabulary, so that
    rounding moves their ends a little and never swaps two. Tokens as probable as the last of top_k or top_p stay in.
    """
    logits = (logits - logits.amax(-1, keepdim=True)) / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < logits.size(-1):
        last = logits.topk(sampling.top_k).values[..., -1:]
        logits = logits.masked_fill(logits < last, float("-inf"))
    probabilities = logits.softmax(-1)
    if sampling.top_p < 1:
        ranked = probabilities.sort(-1, descending=True).values
        before = ranked.cumsum(-1) - ranked  # the first has nothing before it and stays
        last = ranked.masked_fill(before >= sampling.top_p, 1.0).amin(-1, keepdim=True)
        probabilities = probabilities.masked_fill(probabilities < last, 0.0)
    ends = probabilities.cumsum(-1)
    # a product with a number below 1 is less than the sum of all shares, also when rounded
    return (ends <= noise.unsqueeze(-1) * ends[..., -1:]).sum(-1)


def _hypothesis(ids: list[int], token_log_probs: list[float], options: SearchOptions) -> Hypothesis:
    end = ids.index(EOS)
    log_prob = math.fsum(token_log_probs[: end + 1])
    return Hypothesis(ids[:end], log_prob, token_log_probs[: end + 1], log_prob / options.penalty(end + 1))
