"""How good the model is on text that it does not learn from: loss by teacher forcing, BLEU and chrF by decoding."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from nmt.batching.batch import collate
from nmt.batching.plan import SentenceLengths, cut_into_groups
from nmt.config import RuntimeSettings
from nmt.decoding.options import SearchOptions
from nmt.decoding.rescoring import search_and_rescore
from nmt.evaluation.metrics import Score, compute
from nmt.model.checkpoint import LoadedModel
from nmt.system import distributed
from nmt.system.device import autocast
from nmt.text.languages import target_language
from nmt.text.prepared import PreparedSplit
from nmt.text.tokenizer import Tokenizers
from nmt.training.objective import Objective


@dataclass(frozen=True)
class Validation:
    """Loss in nats per target token (not smoothed), and scores of greedy translations."""

    loss: float
    bleu: float
    chrf: float

    @property
    def perplexity(self) -> float:
        """Return e to the loss."""
        return math.exp(min(self.loss, 700))

    def better_is_higher(self, metric: str) -> float:
        """Return the named metric, with its sign turned so that more is better."""
        return {"loss": -self.loss, "bleu": self.bleu, "chrf": self.chrf}[metric]


@dataclass(frozen=True)
class Evaluation:
    """Translations of a text and how they score against its references."""

    translations: list[str]
    bleu: Score
    chrf: Score

    @property
    def scores(self) -> tuple[Score, Score]:
        """Return both scores."""
        return self.bleu, self.chrf

    def write(self, translations: Path, scores: Path) -> None:
        """Write the translations, a line each, and the scores as JSON."""
        translations.write_text("".join(line + "\n" for line in self.translations), encoding="utf-8")
        content = json.dumps([asdict(score) for score in self.scores], indent=2)
        scores.write_text(content + "\n", encoding="utf-8")


def evaluate(
    loaded: LoadedModel,
    sources: Sequence[str],
    references: Sequence[str],
    options: SearchOptions,
    tag: str | None = None,
) -> Evaluation:
    """Translate sentences, each marked with the tag if there is one, and score them against one reference each."""
    loaded.model.eval()
    limit = loaded.model.settings.longest
    # a line that learned positions cannot hold is cut off, since what is measured must not stop a training
    longest = None if limit is None else limit - 1
    mark = [] if tag is None else [loaded.tokenizers.source.tag_id(tag)]
    encoded = [(mark + loaded.tokenizers.source.encode(source))[:longest] for source in sources]
    # each rank translates its share, and all return everything
    own = search_and_rescore(loaded.model, distributed.shard(encoded), options, loaded.decode.batch_tokens)
    found = distributed.all_gather(own)
    translations = [loaded.tokenizers.target.decode(best[0].tokens) for best in found]
    target = target_language(loaded.languages.target)
    bleu, chrf = (compute(metric, translations, [references], target) for metric in ("bleu", "chrf"))
    return Evaluation(translations, bleu, chrf)


def mean_loss(
    objective: Objective, split: PreparedSplit, tokenizers: Tokenizers, budget: int, settings: RuntimeSettings
) -> float:
    """Return the mean negative log-likelihood per target token, in nats."""
    lengths, every = SentenceLengths.of(split), np.arange(len(split))
    ordered = np.lexsort((lengths.source[every], lengths.target[every]))
    device = next(objective.parameters()).device
    objective.eval()
    sums: list[tuple[float, int]] = []
    with torch.no_grad(), autocast(settings, device):
        for indices in distributed.shard(cut_into_groups(ordered, lengths, budget)):
            batch = collate(split, [indices])
            _, likelihood = objective(batch.to(device))
            sums.append((likelihood.item(), batch.target_tokens))
    every_sum = distributed.all_gather(sums)
    return sum(likelihood for likelihood, _ in every_sum) / sum(tokens for _, tokens in every_sum)
