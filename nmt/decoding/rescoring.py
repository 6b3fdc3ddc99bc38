"""What a second look at whole translations adds to a search: the model reads them once more, by teacher forcing.

T target length, S source length, both with `</s>`; H heads.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from nmt.decoding.alignment import usual_heads
from nmt.decoding.batched_search import search_all
from nmt.decoding.forced_decoding import Forced, force_all
from nmt.decoding.hypothesis import Constraints, Hypothesis
from nmt.decoding.options import SearchOptions
from nmt.decoding.workers import Workers
from nmt.model.transformer import Transformer

_TINY = 1e-12
"""Least attention that a source token counts as having had: a logarithm is taken of it."""


def search_and_rescore(
    model: Transformer,
    sentences: Sequence[Sequence[int]],
    options: SearchOptions,
    budget: int,
    constraints_of: Sequence[Constraints] | None = None,
    workers: Workers | None = None,
) -> list[list[Hypothesis]]:
    """Return each sentence's hypotheses as `search_all` does, read again by the model where the options need that.

    The search is that of workers, if there are some, who have the same model.

    With a coverage penalty β, the best that the beam has finished, as many as it is wide, are ranked anew, and the n
    best of them kept: β times `coverage` is added to `normalized`. In Wu et al. 2016 (eq. 14) it also prunes; here only
    the choice among what is finished depends on it. With a repetition penalty, which has lowered what the search added
    up, `log_prob` and `token_log_probs` become the model's own again, and the ranking stays.
    """
    ranked = options.coverage_penalty > 0 and options.sampling is None
    searched = options.model_copy(update={"n_best": options.beam}) if ranked else options
    found = search_all(workers or model, sentences, searched, budget, constraints_of)
    if not ranked and (options.repetition_penalty == 1 or options.sampling is not None):
        return found
    heads = usual_heads(model.settings).heads if ranked else ()
    pairs = [(ids, hypothesis.tokens) for ids, of_one in zip(sentences, found, strict=True) for hypothesis in of_one]
    forced = iter(force_all(model, pairs, budget, heads, workers))
    rescored = [[_rescored(hypothesis, next(forced), options) for hypothesis in of_one] for of_one in found]
    return [sorted(of_one, key=lambda one: -one.normalized)[: options.n_best] for of_one in rescored]


def coverage(attention: Tensor) -> float:
    """Return Σᵢ log min(Σⱼ pᵢⱼ, 1) for weights p of source token i at target token j, from attention (H, T, S).

    (Wu et al. 2016, eq. 15, with the mean of the heads that align well in a Transformer.) It is 0 if every source token
    has had attention of 1 in all, else negative.
    """
    return float(attention.mean(0).sum(0).clamp(_TINY, 1.0).log().sum())


def _rescored(hypothesis: Hypothesis, forced: Forced, options: SearchOptions) -> Hypothesis:
    """Return a hypothesis with what the model makes of it; `normalized` is what the search ranked by, and coverage."""
    added = options.coverage_penalty * coverage(forced.attention) if len(forced.attention) else 0.0
    if options.repetition_penalty == 1:
        return replace(hypothesis, normalized=hypothesis.normalized + added)
    return Hypothesis(hypothesis.tokens, forced.log_prob, forced.token_log_probs, hypothesis.normalized + added)
