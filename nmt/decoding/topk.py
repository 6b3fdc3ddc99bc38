"""The most probable next tokens: after the model, the most expensive part of a step.

N rows, L length of the prefix with `<s>`, V vocabulary, C candidates.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from nmt.decoding.rules import Rule

_BLOCK = 64


def best_tokens(
    logits: Iterable[Tensor], rules: Sequence[Rule], prefixes: Tensor, sentences: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of each row's C best next tokens, best first, and the tokens, (N, C), on the CPU.

    Logits come in blocks of rows, (n, V) each, for prefixes (N, L) of the sentences (N). Tokens that rules forbid keep
    their share of the probability. Only the best tokens are normalised: within a row, log p = logit − normalizer ranks
    as the logits do.
    """
    log_probs, tokens, start = [], [], 0
    for block in logits:
        rows = slice(start, start + len(block))
        start = rows.stop
        block = block.float()
        normalizer = normalizers(block)
        for rule in rules:
            rule.apply(block, prefixes[rows], sentences[rows])
        best, ids = largest(block, count)
        log_probs.append((best - normalizer).cpu())
        tokens.append(ids.cpu())
    return torch.cat(log_probs), torch.cat(tokens)


def normalizers(logits: Tensor) -> Tensor:
    """Return log Σ exp of each row of logits (N, V), as (N, 1)."""
    # log_softmax reads the logits twice, logsumexp four times
    return logits[:, :1] - torch.log_softmax(logits, dim=-1)[:, :1]


def largest(numbers: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the C largest of each row of numbers (N, V), in descending order, and their columns: (N, C) each.

    On a CPU in two steps: the C largest numbers are in the C blocks with the largest maxima, because every
    number in another block is at most as large as C others.
    """
    rows, vocabulary = numbers.shape
    blocks = vocabulary // _BLOCK
    if numbers.device.type != "cpu" or vocabulary % _BLOCK or blocks < count:
        top = numbers.topk(min(count, vocabulary))
        return top.values, top.indices
    by_block = numbers.view(rows, blocks, _BLOCK)
    chosen = by_block.amax(-1).topk(count).indices  # (N, C)
    first = torch.arange(rows).unsqueeze(1) * blocks
    candidates = by_block.flatten(0, 1).index_select(0, (first + chosen).flatten()).view(rows, -1)  # (N, C·64)
    values, places = candidates.topk(count)
    return values, chosen.gather(1, places // _BLOCK) * _BLOCK + places % _BLOCK
