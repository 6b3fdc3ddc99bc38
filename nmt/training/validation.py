"""Validation: the loss with teacher forcing, and BLEU and chrF of the translations that `nmt translate` would print."""

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch

from nmt.batching.batch import assemble
from nmt.batching.batch_stream import cut_into_groups
from nmt.config import Recipe, RuntimeSettings
from nmt.evaluation.metrics import Score, measure
from nmt.model.stored import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.text.languages import target_language
from nmt.text.prepared import PreparedCorpus, PreparedSplit
from nmt.translation.translator import LINE_BATCH_SIZE, Translator


class ScoredText(NamedTuple):
    """A text to translate and score: sources with one reference each, in one target language."""

    sources: Sequence[str]
    references: Sequence[str]
    language: str
    tag: str | None = None  # that precedes each source, besides that of the target language


@dataclass(frozen=True)
class Evaluation:
    """Translations of texts in different target languages, and their scores; the score of all is the mean."""

    texts: Sequence[ScoredText]
    translations: Sequence[list[str]]
    scores: Sequence[tuple[Score, Score]]  # BLEU and chrF of each text
    loss: float = math.nan  # in nats per target token, not smoothed; measured in validations only

    def metric(self, name: str) -> float:
        """Return the named metric, negated if lower is better; scores as they are shown, with two decimals."""
        return -self.loss if name == "loss" else round(float(getattr(self, name)), 2)

    @property
    def bleu(self) -> float:
        """The mean BLEU of the texts."""
        return fmean(bleu.value for bleu, _ in self.scores)

    @property
    def chrf(self) -> float:
        """The mean chrF of the texts."""
        return fmean(chrf.value for _, chrf in self.scores)

    @property
    def by_language(self) -> dict[str, tuple[float, float]]:
        """BLEU and chrF by target language; empty for one text."""
        pairs = zip(self.texts, self.scores, strict=True)
        return {text.language: (bleu.value, chrf.value) for text, (bleu, chrf) in pairs} if len(self.texts) > 1 else {}

    @property
    def samples(self) -> list[tuple[str, str, str]]:
        """Source, reference and translation of the first sentence of median length of each text."""
        examples = []
        for text, translations in zip(self.texts, self.translations, strict=True):
            rows = list(zip(text.sources, text.references, translations, strict=True))
            examples.append(sorted(rows, key=lambda row: len(row[0]))[len(rows) // 2])
        return examples


def evaluate(
    loaded: LoadedModel,
    runtime: RuntimeSettings,
    texts: Sequence[ScoredText],
    show: Callable[[int, int], None] = lambda amount, position: None,
) -> Evaluation:
    """Translate texts as `nmt translate` does and score them against one reference for each line.

    The settings are those of the model (`loaded.decode`) and of the run (`runtime`); `show` receives the number of
    lines done, as the amount and as the position. Collective: every rank returns the whole result.
    """
    translator = Translator(loaded, runtime)
    line_batch = distributed.world_size() * translator.scale * LINE_BATCH_SIZE
    done, results, scores = 0, [], []
    for text in texts:
        options = replace(translator.options(to=text.language), tag=text.tag)
        shard = []  # translations of this rank's lines
        for start in range(0, len(text.sources), line_batch):
            lines = text.sources[start : start + line_batch]
            translated = translator.translate_lines(distributed.shard(lines), options)
            shard += [translation.text for translation in translated]
            done += len(lines)
            show(done, done)
        translations = distributed.all_gather(shard)
        target = target_language(text.language)
        bleu, chrf = (measure(name, translations, [text.references], target).score() for name in ("bleu", "chrf"))
        results.append(translations)
        scores.append((bleu, chrf))
    if not translator.engine.uses_cores:
        del translator
        gc.collect()  # kept searches, which hold gigabytes of device memory, and kernels are in a reference cycle
    return Evaluation(texts, results, scores)


def validation_texts(recipe: Recipe, corpus: PreparedCorpus) -> list[ScoredText]:
    """Return the validation texts of a prepared corpus with the target languages and tags of the recipe."""
    return [
        ScoredText(sources, references, recipe.target_of(text), text.tag)
        for text, (sources, references) in zip(recipe.data.valid, corpus.valid_texts, strict=True)
    ]


def mean_loss(model: Transformer, split: PreparedSplit, budget: int) -> float:
    """Return the mean negative log-likelihood per target token, in nats, in batches of `budget` tokens. Collective."""
    by_length = np.lexsort(split.lengths(np.arange(len(split))))
    model.eval()
    sums: list[tuple[float, int]] = []
    with torch.no_grad():
        for batch_indices in distributed.shard(cut_into_groups(by_length, split, budget)):
            batch = assemble([split.gather(batch_indices)], model.kernels.sizes)
            _, nll = model.loss(batch.copied(model.kernels.to_device))
            sums.append((nll.item(), batch.target_tokens))
    all_sums = distributed.all_gather(sums)
    return sum(nll for nll, _ in all_sums) / sum(tokens for _, tokens in all_sums)
