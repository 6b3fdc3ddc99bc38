"""Greedy search: always the most probable next token. A beam of one, without a beam's bookkeeping.

B sentences still searched, S source length, V vocabulary.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.beam import WORTH_LEAVING
from nmt.decoding.decoder import Steps
from nmt.decoding.hypothesis import Hypothesis, not_a_number
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import Rule
from nmt.text.tokenizer import BOS, EOS


def greedy_search(
    steps: Steps, device: torch.device, limits: Tensor, rules: Sequence[Rule], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return the one hypothesis of each sentence, for steps just started and longest outputs (B), on the CPU."""
    count = limits.numel()
    longest = int(limits.max()) if count else 0
    said = torch.full((count, 1 + longest), EOS)
    said[:, 0] = BOS
    log_probs = torch.zeros(count, longest)
    sentences, done = torch.arange(count), torch.zeros(count, dtype=torch.bool)
    length = 0
    while sentences.numel():
        so_far = said[sentences, : length + 1].unsqueeze(1)  # (B, 1, L)
        logits = steps.step(so_far[:, :, -1].to(device)).float()
        normalizers = logits.logsumexp(-1)
        for rule in rules:
            rule.apply(logits, so_far, sentences)
        values, chosen = logits.max(-1)
        # what a sentence says after its end, until it leaves, is cut off below
        said[sentences, length + 1] = chosen.squeeze(1).cpu()
        log_probs[sentences, length] = (values - normalizers).squeeze(1).cpu()
        length += 1
        done |= said[sentences, length] == EOS
        if done.sum() * WORTH_LEAVING >= done.numel():
            rows = (~done).nonzero().squeeze(1)
            sentences, done = sentences[rows], done[rows]
            steps.keep(rows.to(device))
    return [
        [_hypothesis(ids, by_token, options)]
        for ids, by_token in zip(said[:, 1:].tolist(), log_probs.tolist(), strict=True)
    ]


def _hypothesis(ids: list[int], token_log_probs: list[float], options: SearchOptions) -> Hypothesis:
    end = ids.index(EOS)
    token_log_probs = token_log_probs[: end + 1]
    log_prob = math.fsum(token_log_probs)
    if math.isnan(log_prob):
        raise not_a_number()
    return Hypothesis(ids[:end], log_prob, token_log_probs, log_prob / options.penalty(end + 1))
