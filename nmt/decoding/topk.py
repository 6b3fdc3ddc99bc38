"""From the model's numbers over the vocabulary to the few best tokens: the costliest of a step but the model.

N rows, L length so far with `<s>`, V vocabulary, C candidates.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from nmt.decoding.rules import Rule

_BLOCK = 64


def best_tokens(
    logits: Iterable[Tensor], rules: Sequence[Rule], said: Tensor, sentences: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of each row's C best next tokens, best first, and the tokens, (N, C) each, on the CPU.

    Logits come in blocks of rows, (n, V) each; the rows have said (N, L) and are of these sentences (N). What
    rules forbid keeps its share of the probability. Within a row logits rank as log-probabilities do: so only the best
    are normalised, log p = logit − normalizer, which is exact.
    """
    log_probs, tokens, start = [], [], 0
    for block in logits:
        rows = slice(start, start + len(block))
        start = rows.stop
        block = block.float()
        shares = normalizers(block)
        for rule in rules:
            rule.apply(block, said[rows], sentences[rows])
        best, which = largest(block, count)
        log_probs.append((best - shares).cpu())
        tokens.append(which.cpu())
    return torch.cat(log_probs), torch.cat(tokens)


def normalizers(logits: Tensor) -> Tensor:
    """Return log Σ exp of each row of logits (N, V), as (N, 1)."""
    # where logsumexp goes through them four times, the softmax does twice
    return logits[:, :1] - torch.log_softmax(logits, dim=-1)[:, :1]


def largest(numbers: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the C largest of each row of numbers (N, V), in falling order, and where they stand: (N, C) each.

    On a CPU in two rounds: they are in those C blocks whose maxima are the largest, for any other number has at least
    C before it.
    """
    rows, vocabulary = numbers.shape
    blocks = vocabulary // _BLOCK
    if numbers.device.type != "cpu" or vocabulary % _BLOCK or blocks < count:
        found = numbers.topk(min(count, vocabulary))
        return found.values, found.indices
    by_block = numbers.view(rows, blocks, _BLOCK)
    chosen = by_block.amax(-1).topk(count).indices  # (N, C)
    first = torch.arange(rows).unsqueeze(1) * blocks
    within = by_block.flatten(0, 1).index_select(0, (first + chosen).flatten()).view(rows, -1)  # (N, C·64)
    values, places = within.topk(count)
    return values, chosen.gather(1, places // _BLOCK) * _BLOCK + places % _BLOCK
