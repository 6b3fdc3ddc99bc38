"""Subword regularization in batches: segmentations that are a function of (seed, epoch, pair, side) alone."""

import random
from dataclasses import dataclass

from nmt.batching.batch import Indices, Pairs
from nmt.config import Recipe
from nmt.errors import ConfigError
from nmt.system.device import seed_for
from nmt.text.prepared import Sentences
from nmt.text.subword_sampling import SegmentationSampler
from nmt.text.tokenizer import Tokenizers

GROWTH = 1.5  # limit on the padded length of a group, as a multiple of its longest stored sentence


@dataclass(frozen=True)
class Resegmentation:
    """Samples segmentations of both sides.

    Groups are planned by the lengths in the token store, and their size must be bounded: a sentence whose sample is
    longer than `GROWTH` times the longest of its group, or than `longest` tokens (with `</s>`), is used as stored.
    """

    source: SegmentationSampler
    target: SegmentationSampler
    seed: int
    longest: int

    @classmethod
    def of_recipe(cls, recipe: Recipe, tokenizers: Tokenizers) -> "Resegmentation | None":
        """Return the sampler for `train.subword_sampling`, or None. Raises ConfigError for a value too large."""
        amount = recipe.train.subword_sampling
        if amount is None:
            return None
        # the recipe need not state the type of the initial model's tokenizer
        if amount >= 1 and (tokenizers.source.merges or tokenizers.target.merges):
            raise ConfigError(
                f"train.subword_sampling: found {amount:g}, expected less than 1: with a bpe "
                "tokenizer, which this is, it is the share of merges that are left out"
            )
        source = SegmentationSampler(tokenizers.source, amount)
        target = source if tokenizers.shared else SegmentationSampler(tokenizers.target, amount)
        return cls(source, target, recipe.seed, recipe.data.filters.max_tokens + 1)

    def sample(self, pairs: Pairs, indices: Indices, stored: tuple[int, int], epoch: int) -> Pairs:
        """Return the pairs at `indices` with the segmentations of this epoch.

        `stored` are the lengths, with `</s>`, of the longest stored source and target of the whole group, of which a
        rank may have only some pairs: so the samples do not depend on the number of ranks.
        """
        source = self._side(pairs[0], indices, stored[0], epoch, "source")
        return source, self._side(pairs[1], indices, stored[1], epoch, "target")

    def _side(self, sentences: Sentences, indices: Indices, stored: int, epoch: int, side: str) -> Sentences:
        sampler = self.source if side == "source" else self.target
        most = max(stored, min(int(GROWTH * stored), self.longest)) - 1
        chosen = []
        for ids, index in zip(sentences.split(), indices.tolist(), strict=True):
            sampled = sampler.sample(ids, random.Random(seed_for("segmentation", self.seed, epoch, index, side)))
            chosen.append(sampled if len(sampled) <= most else ids)
        return Sentences.of(chosen)
