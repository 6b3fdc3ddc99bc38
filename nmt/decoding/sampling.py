"""Greedy search and sampling, which extend each hypothesis by one token at a time.

B sentences, K samples of each, N active hypotheses, L length of the prefix with `<s>`, T longest output, V vocabulary.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.config import Sampling
from nmt.decoding.beam import Hypothesis, best_tokens, not_a_number
from nmt.decoding.models import DecoderState
from nmt.decoding.options import Rule, SearchOptions
from nmt.system.device import seed_for
from nmt.text.tokenizer import BOS, EOS

# From logits (N, V), prefixes (N, L) and indices (N) of hypotheses: next tokens, log-probabilities (N).
Choose = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def extend_to_end(
    state: DecoderState, device: torch.device, count: int, longest: int, choose: Choose, options: SearchOptions
) -> list[Hypothesis]:
    """Return this number of hypotheses, extended independently by one chosen token at a time until each has ended.

    `longest` is the length at which all have ended. Raises ModelError for log-probabilities that are NaN.
    """
    generated = torch.full((count, 1 + longest), EOS)
    generated[:, 0] = BOS
    log_probs = torch.zeros(count, dtype=torch.float64)
    active = torch.arange(count)  # the hypotheses that have not ended
    for length in range(1, longest + 1):
        prefixes = generated[active, :length]  # (N, L)
        tokens, of_tokens = choose(state.step(prefixes[:, -1].to(device)), prefixes, active)
        generated[active, length] = tokens
        log_probs[active] += of_tokens
        rows = (tokens != EOS).nonzero().squeeze(1)
        if not rows.numel():
            break
        if rows.numel() < active.numel():
            active = active[rows]
            state.select(rows)
    if log_probs.isnan().any():
        raise not_a_number()
    hypotheses = []
    for ids, log_prob in zip(generated[:, 1:].tolist(), log_probs.tolist(), strict=True):
        end = ids.index(EOS)
        hypotheses.append(Hypothesis(ids[:end], log_prob, log_prob / options.penalty(end + 1)))
    return hypotheses


def greedy_search(
    state: DecoderState, device: torch.device, limits: Tensor, rules: Sequence[Rule], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return the hypothesis of each sentence that takes the most probable token at each step, for length limits (B).

    Without `options.log_probs` the normalizers are not computed: log-probabilities are those of unnormalised logits.
    """

    def most_probable(logits: Tensor, prefixes: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        log_probs, tokens = best_tokens(logits, rules, prefixes, active, 1, options.log_probs)
        return tokens.squeeze(1), log_probs.squeeze(1)

    found = extend_to_end(state, device, limits.numel(), int(limits.max()), most_probable, options)
    return [[hypothesis] for hypothesis in found]


def sample_search(
    state: DecoderState, device: torch.device, noise: Tensor, rules: Sequence[Rule], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return K samples of each sentence, the most probable first, for the noise (B, K, T) of `noise_for`.

    Samples are independent, so that two may be equal. Rules and temperature change the distribution that is drawn from;
    `log_prob` is that of the model itself.
    """
    sampling = options.sampling
    assert sampling is not None
    count, samples, longest = noise.shape
    noise = noise.flatten(0, 1)  # (B·K, T)

    def drawn(logits: Tensor, prefixes: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        logits = logits.float()  # (N, V)
        log_probs = logits.log_softmax(-1)
        for rule in rules:
            rule.apply(logits, prefixes, active // samples)
        tokens = draw(logits, noise[active, prefixes.size(1) - 1].to(device), sampling)  # (N)
        return tokens.cpu(), log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1).cpu()

    state.select(torch.arange(count).repeat_interleave(samples))
    found = extend_to_end(state, device, count * samples, longest, drawn, options)
    of_sentences = (found[i : i + samples] for i in range(0, len(found), samples))
    return [sorted(of_one, key=lambda hypothesis: -hypothesis.log_prob) for of_one in of_sentences]


def noise_for(sentences: Sequence[Sequence[int]], limits: Tensor, options: SearchOptions) -> Tensor:
    """Return a random number in [0, 1) for each sentence, sample and position (B, K, T), 0 beyond a sentence's limit.

    It is a function of the source ids and the indices of sample and position only: a sentence gets the same samples in
    any batch. (Philox, Salmon et al. 2011, is a counter-based generator.)
    """
    noise = torch.zeros(len(sentences), options.width, int(limits.max()))
    for row, ids, limit in zip(noise, sentences, limits.tolist(), strict=True):
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
