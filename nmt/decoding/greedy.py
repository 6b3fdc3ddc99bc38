"""Greedy search: always the most probable next token. A beam of one, without a beam's bookkeeping.

B sentences, V vocabulary.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.hypothesis import Hypothesis, not_a_number
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import Rule
from nmt.decoding.step_model import DecoderState
from nmt.decoding.topk import best_tokens
from nmt.text.tokenizer import BOS, EOS


def greedy_search(
    steps: DecoderState, device: torch.device, limits: Tensor, rules: Sequence[Rule], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return the one hypothesis of each sentence, for steps just started and longest outputs (B), on the CPU."""
    count = limits.numel()
    longest = int(limits.max()) if count else 0
    said = torch.full((count, 1 + longest), EOS)
    said[:, 0] = BOS
    log_probs = torch.zeros(count, longest)
    sentences = torch.arange(count)
    for length in range(1, longest + 1):
        so_far = said[sentences, :length]
        values, chosen = best_tokens(steps.step(so_far[:, -1].to(device)), rules, so_far, sentences, 1)
        log_probs[sentences, length - 1] = values.squeeze(1)
        said[sentences, length] = chosen.squeeze(1)
        rows = (said[sentences, length] != EOS).nonzero().squeeze(1)
        if not rows.numel():
            break
        if rows.numel() < sentences.numel():
            sentences = sentences[rows]
            steps.select(rows.to(device))
    rows_said = zip(said[:, 1:].tolist(), log_probs.tolist(), strict=True)
    return [[_hypothesis(ids, by_token, options)] for ids, by_token in rows_said]


def _hypothesis(ids: list[int], token_log_probs: list[float], options: SearchOptions) -> Hypothesis:
    end = ids.index(EOS)
    token_log_probs = token_log_probs[: end + 1]
    log_prob = math.fsum(token_log_probs)
    if math.isnan(log_prob):
        raise not_a_number()
    return Hypothesis(ids[:end], log_prob, token_log_probs, log_prob / options.penalty(end + 1))
