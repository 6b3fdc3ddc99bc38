"""Search for the best translations of one batch.

B sentences, S source length.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.beam import Observer, beam_search
from nmt.decoding.constrained import beam_width, constrained_search
from nmt.decoding.hypothesis import NO_CONSTRAINTS, Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.rules import rules_for
from nmt.decoding.sampling import greedy_search, noise_for, sample_search
from nmt.decoding.step_model import StepModel
from nmt.errors import ConfigError


@torch.inference_mode()
def search(
    model: StepModel,
    source: Tensor,
    source_mask: Tensor | None,
    options: SearchOptions,
    constraints_of: Sequence[Constraints] | None = None,
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Return up to n_best hypotheses of each sentence, best first; fewer only if no more exist.

    Source ids (B, S) and mask (B, S), True at tokens, are the input of the encoder; no mask means no padding. The
    result of a sentence does not depend on the other sentences of the batch, except for rounding. An observer receives
    the steps of a beam search; with it, a beam of 1 is one as well, and sampling and required phrases are excluded.
    Raises ModelError if the model's numbers are NaN, ConfigError for constraints that cannot be met.
    """
    if not source.size(0):
        return []
    lengths = [source.size(1)] * source.size(0) if source_mask is None else source_mask.sum(1).tolist()
    constraints_of = constraints_of or [NO_CONSTRAINTS] * source.size(0)
    limits = _length_limits(model, options, lengths, constraints_of)
    shortest = torch.tensor([options.shortest_output(length) for length in lengths])
    rules = rules_for(options, constraints_of, limits, shortest)
    with_phrases = any(constraints.phrases for constraints in constraints_of)
    assert observer is None or (options.sampling is None and not with_phrases), "no beam search"
    if options.sampling is not None:
        if with_phrases:
            raise ConfigError("decode.sampling: samples cannot contain required phrases; set it to null to search")
        sentences = [row[:length] for row, length in zip(source.tolist(), lengths, strict=True)]
        noise = noise_for(sentences, limits, options)
        return sample_search(model.start(source, source_mask, options.width), model.device, noise, rules, options)
    if with_phrases:
        state = model.start(source, source_mask, beam_width(constraints_of, options))
        return constrained_search(state, model.device, limits, rules, constraints_of, options)
    state = model.start(source, source_mask, options.beam)
    if options.beam == 1 and observer is None:
        return greedy_search(state, model.device, limits, rules, options)
    return beam_search(state, model.device, limits, rules, options, observer)


def _length_limits(
    model: StepModel, options: SearchOptions, lengths: Sequence[int], constraints_of: Sequence[Constraints]
) -> Tensor:
    """Return the longest outputs (B) for sources of these lengths, extended by the tokens of the constraints.

    Raises ConfigError if a prefix exceeds the longest output of the model.
    """
    required = [len(constraints.prefix) + constraints.phrase_tokens for constraints in constraints_of]
    limits = torch.tensor([options.longest_output(length) + n for length, n in zip(lengths, required, strict=True)])
    if model.longest is None:
        return limits
    prefix = max(len(constraints.prefix) for constraints in constraints_of)
    if prefix >= model.longest:
        raise ConfigError(
            f"the required beginning of a translation has {prefix} tokens, but the model generates at most "
            f"{model.longest} with the sentence end; give a shorter beginning"
        )
    return limits.clamp(max=model.longest)
