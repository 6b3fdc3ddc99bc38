"""The search for the best translations of a batch of sentences.

B sentences, S source length.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.beam import beam_search
from nmt.decoding.decoder import Decoder
from nmt.decoding.demand import NO_DEMAND, Demand
from nmt.decoding.greedy import greedy_search
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import rules_for


@torch.inference_mode()
def search(
    decoder: Decoder,
    source: Tensor,
    source_mask: Tensor | None,
    options: SearchOptions,
    demands: Sequence[Demand] | None = None,
) -> list[list[Hypothesis]]:
    """Return up to n_best complete hypotheses of each sentence, best first; there are fewer only if there are no more.

    Source ids (B, S) and mask (B, S), True at tokens, are what the encoder reads; no mask means no padding. There is
    one demand a sentence, or none at all. What a sentence gets does not depend on the others in the batch, but for
    rounding.
    Raises ModelError if the model's numbers are NaN.
    """
    if not source.size(0):
        return []
    lengths = [source.size(1)] * source.size(0) if source_mask is None else source_mask.sum(1).tolist()
    limits = torch.tensor([options.limit(length) for length in lengths])
    if decoder.longest is not None:
        limits.clamp_(max=decoder.longest)
    rules = rules_for(options, demands or [NO_DEMAND] * source.size(0), limits)
    find = greedy_search if options.beam == 1 else beam_search
    return find(decoder.start(source, source_mask, options.beam), decoder.device, limits, rules, options)
