"""Greedy search: always the most probable next token. A beam of one, without a beam's bookkeeping.

B sentences still searched, S source length, V vocabulary.
"""

import math

import torch
from torch import Tensor

from nmt.decoding.beam import WORTH_LEAVING
from nmt.decoding.candidates import restrict
from nmt.decoding.hypothesis import Hypothesis, not_a_number
from nmt.decoding.options import SearchOptions
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import BOS, EOS


def greedy_search(
    model: Transformer, memory: Tensor, source_mask: Tensor | None, limits: Tensor, options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return the one hypothesis of each sentence, for memory (B, S, D) and longest outputs (B), on the CPU."""
    device, count = memory.device, memory.size(0)
    longest = int(limits.max()) if count else 0
    said = torch.full((count, longest), EOS, device=device)
    log_probs = torch.zeros(count, longest, device=device)
    cache = model.start_cache(memory, source_mask, 1)
    tokens = torch.full((count, 1), BOS, device=device)
    sentences, done = torch.arange(count), torch.zeros(count, dtype=torch.bool)
    length = 0
    while sentences.numel():
        logits = model.decode_step(tokens, cache)[:, 0].float()
        normalizers = logits.logsumexp(-1)
        restrict(logits, limits[sentences] == length + 1, options)
        values, chosen = logits.max(-1)
        # what a sentence says after its end, until it leaves, is cut off below
        said[sentences.to(device), length] = chosen
        log_probs[sentences.to(device), length] = values - normalizers
        length += 1
        tokens = chosen.unsqueeze(1)
        done |= (chosen == EOS).cpu()
        if done.sum() * WORTH_LEAVING >= done.numel():
            rows = (~done).nonzero().squeeze(1)
            sentences, done, tokens = sentences[rows], done[rows], tokens[rows.to(device)]
            cache.keep(rows.to(device))
    return [
        [_hypothesis(ids, by_token, options)] for ids, by_token in zip(said.tolist(), log_probs.tolist(), strict=True)
    ]


def _hypothesis(ids: list[int], token_log_probs: list[float], options: SearchOptions) -> Hypothesis:
    end = ids.index(EOS)
    token_log_probs = token_log_probs[: end + 1]
    log_prob = math.fsum(token_log_probs)
    if math.isnan(log_prob):
        raise not_a_number()
    return Hypothesis(ids[:end], log_prob, token_log_probs, log_prob / options.penalty(end + 1))
