"""The search for the best translations of a batch of sentences.

B sentences, S source length.
"""

import torch
from torch import Tensor

from nmt.decoding.beam import beam_search
from nmt.decoding.greedy import greedy_search
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.model.transformer import Transformer


@torch.inference_mode()
def search(
    model: Transformer, source: Tensor, source_mask: Tensor | None, options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return up to n_best complete hypotheses of each sentence, best first; there are fewer only if there are no more.

    Source ids (B, S) and mask (B, S), True at tokens, are what the encoder reads; no mask means no padding. The model
    must be in eval mode. What a sentence gets does not depend on the others in the batch, but for rounding.
    Raises ModelError if the model's numbers are NaN.
    """
    assert not model.training, "dropout would make the search random"
    if not source.size(0):
        return []
    lengths = [source.size(1)] * source.size(0) if source_mask is None else source_mask.sum(1).tolist()
    limits = torch.tensor([options.limit(length) for length in lengths])
    if model.settings.longest is not None:
        limits.clamp_(max=model.settings.longest)
    memory = model.encode(source, source_mask)
    find = greedy_search if options.beam == 1 else beam_search
    return find(model, memory, source_mask, limits, options)
