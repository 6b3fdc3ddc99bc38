"""Validation: the loss with teacher forcing, and BLEU and chrF of the translations that `nmt translate` would print."""

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from nmt.batching.batch import collate
from nmt.batching.plan import SentenceLengths, cut_into_groups
from nmt.config import RuntimeSettings
from nmt.evaluation.metrics import Score, compute
from nmt.model.checkpoint import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.system.device import autocast
from nmt.system.files import replace_text
from nmt.text.languages import target_language
from nmt.text.prepared import PreparedSplit
from nmt.training.loss import Objective
from nmt.training.progress import perplexity
from nmt.translation.translator import Translator


@dataclass(frozen=True)
class Validation:
    """Loss in nats per target token (not smoothed), and scores of greedy translations."""

    loss: float
    bleu: float
    chrf: float

    @property
    def perplexity(self) -> float:
        """Return exp of the loss."""
        return perplexity(self.loss)

    def metric(self, name: str) -> float:
        """Return the named metric, negated if lower is better; scores as they are shown, with two decimals."""
        return {"loss": -self.loss, "bleu": round(self.bleu, 2), "chrf": round(self.chrf, 2)}[name]


@dataclass(frozen=True)
class Evaluation:
    """Translations of a text and their scores against its references."""

    translations: list[str]
    bleu: Score
    chrf: Score

    @property
    def scores(self) -> tuple[Score, Score]:
        """Both scores."""
        return self.bleu, self.chrf

    def write(self, translations: Path, scores: Path) -> None:
        """Write the translations, a line each, and the scores as JSON."""
        replace_text(translations, "".join(line + "\n" for line in self.translations))
        replace_text(scores, json.dumps([asdict(score) for score in self.scores], indent=2) + "\n")


def sharing_weights(model: Transformer) -> Transformer:
    """Return a copy of a model that shares its weights: a translator packs them, which must not affect training."""
    return copy.deepcopy(model, {id(weight): weight for weight in model.parameters()})


def evaluate(
    loaded: LoadedModel,
    runtime: RuntimeSettings,
    sources: Sequence[str],
    references: Sequence[str],
    tag: str | None = None,
) -> Evaluation:
    """Translate lines as `nmt translate` does and score them against one reference each; each line gets the tag.

    The settings are those of the model (`loaded.decode`), the precision is `auto`. Collective: every rank returns the
    whole result.
    """
    translator = Translator(loaded, runtime.model_copy(update={"precision": "auto"}))
    options = translator.options() if tag is None else replace(translator.options(), tag=tag)
    own = [translation.text for translation in translator.translate(distributed.shard(sources), options)]
    translations = distributed.all_gather(own)
    target = target_language(loaded.languages.target)
    bleu, chrf = (compute(metric, translations, [references], target) for metric in ("bleu", "chrf"))
    return Evaluation(translations, bleu, chrf)


def mean_loss(objective: Objective, split: PreparedSplit, budget: int, runtime: RuntimeSettings) -> float:
    """Return the mean negative log-likelihood per target token, in nats. Collective."""
    lengths, indices = SentenceLengths.of(split), np.arange(len(split))
    by_length = np.lexsort((lengths.source[indices], lengths.target[indices]))
    device = next(objective.parameters()).device
    objective.eval()
    sums: list[tuple[float, int]] = []
    with torch.no_grad(), autocast(runtime, device):
        for batch_indices in distributed.shard(cut_into_groups(by_length, lengths, budget)):
            batch = collate(split, [batch_indices])
            _, likelihood = objective(batch.to(device))
            sums.append((likelihood.item(), batch.target_tokens))
    all_sums = distributed.all_gather(sums)
    return sum(likelihood for likelihood, _ in all_sums) / sum(tokens for _, tokens in all_sums)
