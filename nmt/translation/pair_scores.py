"""Find wrong pairs of a text by a model: those whose target is as improbable as that of another sentence.

The score of a pair is its log-probability per target token (Junczys-Dowmunt 2018, "Dual Conditional Cross-Entropy
Filtering of Noisy Parallel Corpora", with one direction). What is improbable depends on model and text: so the
limit is the score that 5 % of shuffled pairs of the same text exceed.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from pathlib import Path
from random import Random

import numpy as np

from nmt.config import Recipe
from nmt.config.section import SettingError
from nmt.errors import ModelError
from nmt.kernels.machine import thread_count
from nmt.system.distributed import world_size
from nmt.system.workers import batched
from nmt.text.preparing.preparation import Judge
from nmt.translation.sharing import shared_map
from nmt.translation.translator import Translator

_SHUFFLED_ABOVE = 0.05
_MOST_REMOVED = 0.5  # share of the sample; if more is improbable, the model was trained on other text
_LONGEST = 2_000  # characters of a side; longer ones are not scored

Texts = tuple[str, str]


def judge_by(model: Path, recipe: Recipe) -> Judge:
    """Return a function that finds improbable pairs. Raises SettingError for a model that cannot judge the text."""
    key, languages = "data.filters.scored_by", recipe.languages
    if len(languages.target) > 1:
        raise SettingError(key, "a recipe with several target languages cannot be scored; prepare them one by one")
    machine = recipe.runtime.model_dump()
    try:
        translator = Translator.load(model, process_count=thread_count(recipe.runtime), **machine)
    except ModelError as error:
        raise SettingError(key, str(error)) from None
    if translator.languages.source != languages.source or languages.target[0] not in translator.languages.target:
        raise SettingError(key, f"{model} translates {translator.languages.names}, but the text is {languages.names}")
    options = translator.options(to=languages.target[0])

    def batch_scores(pairs: Sequence[Texts]) -> list[float]:
        """Return the score of each pair; infinity for pairs with a long side."""
        short = [max(map(len, pair)) <= _LONGEST for pair in pairs]
        forced = iter(translator.force(list(compress(pairs, short)), options))
        return [float(np.mean(next(forced).token_log_probs)) if is_short else math.inf for is_short in short]

    def scores(pairs: Iterable[Texts]) -> Iterator[float]:
        batches = batched(pairs, translator.batch_lines)
        # of several processes of torchrun, only the first one prepares
        score_lists = shared_map(translator, batch_scores, batches) if world_size() == 1 else map(batch_scores, batches)
        return chain.from_iterable(score_lists)

    def judge(sample: list[Texts], pairs: Iterator[Texts]) -> Iterator[str | None]:
        sources, targets = zip(*sample, strict=True)
        # in random order: by any distance, the targets of shifted lines or of repeated sources can be right ones
        shuffled_pairs = zip(sources, Random(len(targets)).sample(targets, len(targets)), strict=True)
        shuffled = [score for score in scores(shuffled_pairs) if score < math.inf]
        if not shuffled:
            raise SettingError(key, f"every pair has a side of more than {_LONGEST:,} characters; remove the key")
        limit = float(np.quantile(shuffled, 1 - _SHUFFLED_ABOVE))
        share = float(np.mean(np.array(list(scores(sample))) <= limit))
        if share > _MOST_REMOVED:
            problem = f"{model} finds {share:.0%} of the pairs as improbable as shuffled ones"
            reason = "so it was trained on other text, or most pairs are wrong"
            raise SettingError(key, f"{problem}, {reason}; name a better model, or correct the text")
        for score in scores(pairs):
            yield None if score > limit else f"{score:.2f} nats a token; pairs above {limit:.2f} are kept"

    return judge
