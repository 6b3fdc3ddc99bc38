"""Rescore the hypotheses of a search by forced decoding: coverage, and log-probabilities without penalties.

T target length, S source length, both with `</s>`; H heads.
"""

from collections.abc import Sequence

from torch import Tensor

from nmt.decoding.alignment import usual_heads
from nmt.decoding.batch_runner import BatchRunner, OnProgress
from nmt.decoding.batched_search import search_all
from nmt.decoding.forced_decoding import Forced, force_all
from nmt.decoding.hypothesis import Constraints, Hypothesis
from nmt.decoding.options import SearchOptions

_MIN_ATTENTION = 1e-12
"""The least attention to a source token that counts, because its logarithm is taken."""


def needs_rescoring(options: SearchOptions) -> bool:
    """Return whether a penalty of these options needs the whole hypotheses; samples are not ranked by penalties."""
    return options.sampling is None and (options.coverage_penalty > 0 or options.repetition_penalty != 1)


def search_and_rescore(
    runner: BatchRunner,
    sentences: Sequence[Sequence[int]],
    options: SearchOptions,
    budget: int,
    constraints_of: Sequence[Constraints] | None = None,
    on_progress: OnProgress | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence as `search_all` does, with what forced decoding adds. One model only.

    With a coverage penalty β, all hypotheses that the beam has finished are ranked again by `normalized` + β times
    `coverage`, and the n best are kept. In Wu et al. 2016 (eq. 14) it also prunes; here it only ranks what is finished.
    With a repetition penalty, which lowers the log-probabilities that the search adds up, `log_prob` becomes that of
    the model, and the ranking stays.
    """
    by_coverage = options.coverage_penalty > 0
    widened = options.model_copy(update={"n_best": options.beam}) if by_coverage else options
    found = search_all(runner, sentences, widened, budget, constraints_of, on_progress)
    heads = [usual_heads(model.settings).heads if by_coverage else () for model in runner.models]
    pairs = [(ids, hypothesis.tokens) for ids, of_one in zip(sentences, found, strict=True) for hypothesis in of_one]
    forced = (one for (one,) in force_all(runner, pairs, budget, heads))
    rescored = [[_rescored(hypothesis, next(forced), options) for hypothesis in of_one] for of_one in found]
    return [sorted(of_one, key=lambda one: -one.normalized)[: options.n_best] for of_one in rescored]


def coverage(attention: Tensor) -> float:
    """Return Σᵢ log min(Σⱼ pᵢⱼ, 1) for weights p of source token i at target token j, from attention (H, T, S).

    Wu et al. 2016, eq. 15, with the mean of the heads that align well in a Transformer. It is 0 if every source token
    receives a total attention of 1 or more, else negative.
    """
    return float(attention.mean(0).sum(0).clamp(_MIN_ATTENTION, 1.0).log().sum())


def _rescored(hypothesis: Hypothesis, forced: Forced, options: SearchOptions) -> Hypothesis:
    added = options.coverage_penalty * coverage(forced.attention) if len(forced.attention) else 0.0
    log_prob = hypothesis.log_prob if options.repetition_penalty == 1 else forced.log_prob
    return Hypothesis(hypothesis.tokens, log_prob, hypothesis.normalized + added)
