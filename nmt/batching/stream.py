"""The endless sequence of training batches, and the place in it."""

from dataclasses import dataclass, field

from nmt.batching.batch import Batch, collate
from nmt.batching.plan import EpochPlan, SentenceLengths, plan_epoch
from nmt.text.prepared import PreparedSplit
from nmt.text.tokenizer import Tokenizers


@dataclass
class BatchStream:
    """Batches epoch after epoch, each a length group: an update takes `train.length_groups` of them, or a multiple.

    `budget` is what one may hold in padded target tokens. `epoch` and `batch` say which comes next; a stream set to
    them goes on from there.
    """

    split: PreparedSplit
    lengths: SentenceLengths
    tokenizers: Tokenizers
    budget: int
    seed: int
    epoch: int = 0
    batch: int = 0
    _planned: tuple[int, EpochPlan] | None = field(default=None, init=False)

    def next(self) -> Batch:
        """Return the next batch and move on."""
        batches = self.plan().batches
        result = collate(self.split, batches[self.batch], self.tokenizers)
        self.batch += 1
        if self.batch == len(batches):
            self.epoch, self.batch = self.epoch + 1, 0
        return result

    def plan(self) -> EpochPlan:
        """Return the plan of the current epoch."""
        if self._planned is None or self._planned[0] != self.epoch:
            self._planned = self.epoch, plan_epoch(self.lengths, self.budget, self.seed, self.epoch)
        return self._planned[1]

    @property
    def epochs_read(self) -> float:
        """Return how often the corpus has been read, with the part of the current epoch."""
        return self.epoch + self.batch / len(self.plan().batches)
