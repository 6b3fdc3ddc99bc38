"""Validation: the loss with teacher forcing, and BLEU and chrF of the translations that `nmt translate` would print."""

import copy
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch

from nmt.batching.batch import collate
from nmt.batching.batch_stream import cut_into_groups
from nmt.config import Recipe, RuntimeSettings
from nmt.evaluation.metrics import Score, measure
from nmt.model.checkpoint import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.system.console import AdvanceTo
from nmt.system.device import autocast
from nmt.text.languages import target_language
from nmt.text.prepared import PreparedCorpus, PreparedSplit
from nmt.training.loss import Objective
from nmt.training.progress import perplexity
from nmt.translation.translator import LINE_BATCH_SIZE, Translator

_DEGENERATE_SHARE = 0.5
_REPEATED = re.compile(r"(\S{1,12}?)(?:\s*\1){5,}|^(\S{1,12}?)(?:\s*\2){2,}$")
"""A word, or some characters, six times in a row, or three times and nothing else."""


class Sample(NamedTuple):
    """A sentence with its translation."""

    source: str
    reference: str
    output: str


class ScoredText(NamedTuple):
    """A text to translate and score: sources with one reference each, in one target language."""

    sources: Sequence[str]
    references: Sequence[str]
    language: str
    tag: str | None = None
    """The tag that precedes each source, besides that of the target language."""


@dataclass(frozen=True)
class TextEvaluation:
    """Translations of a text and their scores against its references."""

    language: str
    translations: list[str]
    bleu: Score
    chrf: Score
    sample: Sample
    """The first sentence of median length, the same at each validation."""


@dataclass(frozen=True)
class Evaluation:
    """The evaluations of texts in different target languages; scores are means over the texts."""

    texts: tuple[TextEvaluation, ...]
    loss: float = math.nan
    """In nats per target token, not smoothed; measured in validations only."""

    @property
    def perplexity(self) -> float:
        """Return exp of the loss."""
        return perplexity(self.loss)

    def metric(self, name: str) -> float:
        """Return the named metric, negated if lower is better; scores as they are shown, with two decimals."""
        return {"loss": -self.loss, "bleu": round(self.bleu, 2), "chrf": round(self.chrf, 2)}[name]

    @property
    def translations(self) -> list[str]:
        """The translations of all texts, in order."""
        return [line for text in self.texts for line in text.translations]

    @property
    def bleu(self) -> float:
        """The mean BLEU of the texts."""
        return fmean(text.bleu.value for text in self.texts)

    @property
    def chrf(self) -> float:
        """The mean chrF of the texts."""
        return fmean(text.chrf.value for text in self.texts)

    @property
    def by_language(self) -> dict[str, tuple[float, float]]:
        """BLEU and chrF by target language; empty for one text."""
        scores = {text.language: (text.bleu.value, text.chrf.value) for text in self.texts}
        return scores if len(scores) > 1 else {}

    @property
    def scores(self) -> list[tuple[str, Score]]:
        """All scores, each with the target language of its text."""
        return [(text.language, score) for text in self.texts for score in (text.bleu, text.chrf)]

    def as_text(self) -> str:
        """Return the translations, a line each."""
        return "".join(line + "\n" for line in self.translations)

    def as_json(self) -> str:
        """Return the scores as JSON, with their languages if there are several."""
        named = [({"language": code} if self.by_language else {}) | asdict(score) for code, score in self.scores]
        return json.dumps(named, indent=2) + "\n"


def sharing_weights(model: Transformer) -> Transformer:
    """Return a copy of a model that shares its weights: a translator packs them, which must not affect training."""
    return copy.deepcopy(model, {id(weight): weight for weight in model.parameters()})


def evaluate(
    loaded: LoadedModel,
    runtime: RuntimeSettings,
    texts: Sequence[ScoredText],
    show: AdvanceTo = lambda amount, position: None,
) -> Evaluation:
    """Translate texts as `nmt translate` does and score them against one reference for each line.

    The settings are those of the model (`loaded.decode`), the precision is `auto`; `show` receives the number of lines
    done, twice. Collective: every rank returns the whole result.
    """
    translator = Translator(loaded, runtime.model_copy(update={"precision": "auto"}))
    evaluations: list[TextEvaluation] = []
    for text in texts:
        done = sum(len(evaluation.translations) for evaluation in evaluations)
        evaluations.append(_evaluate_text(translator, text, done, show))
    return Evaluation(tuple(evaluations))


def _evaluate_text(translator: Translator, text: ScoredText, done: int, show: AdvanceTo) -> TextEvaluation:
    """Translate and score one text; so many lines of other texts were done before."""
    sources, references = text.sources, text.references
    options = replace(translator.options(to=text.language), tag=text.tag)
    line_batch = distributed.world_size() * translator.scale * LINE_BATCH_SIZE
    translated = []  # of the lines of this rank
    for start in range(0, len(sources), line_batch):
        lines = sources[start : start + line_batch]
        translated += translator.translate_lines(distributed.shard(lines), options)
        lines_done = done + start + len(lines)
        show(lines_done, lines_done)
    translations = distributed.all_gather([translation.text for translation in translated])
    target = target_language(text.language)
    bleu, chrf = (measure(metric, translations, [references], target).score() for metric in ("bleu", "chrf"))
    median = sorted(range(len(sources)), key=lambda index: len(sources[index]))[len(sources) // 2]
    sample = Sample(sources[median], references[median], translations[median])
    return TextEvaluation(text.language, translations, bleu, chrf, sample)


def validation_texts(recipe: Recipe, corpus: PreparedCorpus) -> list[ScoredText]:
    """Return the validation texts of a prepared corpus with the target languages and tags of the recipe."""
    return [
        ScoredText(sources, references, recipe.target_of(text), text.tag)
        for text, (sources, references) in zip(recipe.data.valid, corpus.valid_texts, strict=True)
    ]


def degeneration(translations: Sequence[str]) -> str | None:
    """Return what shows that most translations are degenerate: all the same, empty, or one token repeated."""
    count = len(translations)
    ((text, same),) = Counter(translations).most_common(1)
    if same > max(1, _DEGENERATE_SHARE * count):
        return f"{same:,} of {count:,} translations are {f'the same: {text[:40]!r}' if text else 'empty'}"
    repetitive = [text for text in translations if _REPEATED.search(text)]
    if len(repetitive) > _DEGENERATE_SHARE * count:
        return f"{len(repetitive):,} of {count:,} translations repeat one token: {repetitive[0][:40]!r}"
    return None


def mean_loss(objective: Objective, split: PreparedSplit, budget: int, runtime: RuntimeSettings) -> float:
    """Return the mean negative log-likelihood per target token, in nats. Collective."""
    by_length = np.lexsort(split.lengths(np.arange(len(split))))
    device = next(objective.parameters()).device
    objective.eval()
    sums: list[tuple[float, int]] = []
    # without gradients the layers would be compiled once more
    eager = torch.compiler.set_stance("force_eager") if runtime.compile else nullcontext()
    with torch.no_grad(), autocast(runtime, device), eager:
        for batch_indices in distributed.shard(cut_into_groups(by_length, split, budget)):
            batch = collate(split, [batch_indices])
            _, likelihood = objective(batch.to(device))
            sums.append((likelihood.item(), batch.target_tokens))
    all_sums = distributed.all_gather(sums)
    return sum(likelihood for likelihood, _ in all_sums) / sum(tokens for _, tokens in all_sums)
