"""The search for the best translations of a batch of sentences.

B sentences, S source length.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.beam import beam_search
from nmt.decoding.constrained import beam_width, constrained_search
from nmt.decoding.greedy import greedy_search
from nmt.decoding.hypothesis import NO_CONSTRAINTS, Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import rules_for
from nmt.decoding.sampling import noise_for, sample_search
from nmt.decoding.step_model import StepModel
from nmt.errors import ConfigError


@torch.inference_mode()
def search(
    decoder: StepModel,
    source: Tensor,
    source_mask: Tensor | None,
    options: SearchOptions,
    constraints_of: Sequence[Constraints] | None = None,
) -> list[list[Hypothesis]]:
    """Return up to n_best complete hypotheses of each sentence, best first; there are fewer only if there are no more.

    Source ids (B, S) and mask (B, S), True at tokens, are what the encoder reads; no mask means no padding. There is
    one demand a sentence, or none at all. What a sentence gets does not depend on the others in the batch, but for
    rounding.
    Raises ModelError if the model's numbers are NaN, ConfigError for a demand that cannot be met.
    """
    if not source.size(0):
        return []
    lengths = [source.size(1)] * source.size(0) if source_mask is None else source_mask.sum(1).tolist()
    constraints_of = constraints_of or [NO_CONSTRAINTS] * source.size(0)
    limits = _limits(decoder, options, lengths, constraints_of)
    rules = rules_for(
        options, constraints_of, limits, torch.tensor([options.shortest_output(length) for length in lengths])
    )
    if options.sampling is not None:
        if any(constraints.phrases for constraints in constraints_of):
            raise ConfigError("decode.sampling: samples cannot be made to hold phrases; set it to null to search")
        sentences = [row[:length] for row, length in zip(source.tolist(), lengths, strict=True)]
        noise = noise_for(sentences, limits, options)
        steps = decoder.start(source, source_mask, options.width)
        return sample_search(steps, decoder.device, limits, rules, options, noise)
    if any(constraints.phrases for constraints in constraints_of):
        steps = decoder.start(source, source_mask, beam_width(constraints_of, options))
        return constrained_search(steps, decoder.device, limits, rules, constraints_of, options)
    find = greedy_search if options.beam == 1 else beam_search
    return find(decoder.start(source, source_mask, options.beam), decoder.device, limits, rules, options)


def _limits(
    decoder: StepModel, options: SearchOptions, lengths: Sequence[int], constraints_of: Sequence[Constraints]
) -> Tensor:
    """Return the longest outputs (B) for sources of these lengths: what is demanded always fits, where the model can.

    Raises ConfigError where it cannot.
    """
    rooms = [len(constraints.prefix) + constraints.phrase_tokens for constraints in constraints_of]
    limits = torch.tensor([options.longest_output(length) + room for length, room in zip(lengths, rooms, strict=True)])
    if decoder.longest is None:
        return limits
    prefix = max(len(constraints.prefix) for constraints in constraints_of)
    if prefix >= decoder.longest:
        raise ConfigError(
            f"a translation shall begin with {prefix} tokens, but the model knows no more than {decoder.longest} with "
            "the sentence end; give a shorter beginning"
        )
    return limits.clamp(max=decoder.longest)
