"""The endless sequence of training batches, and the place in it."""

from dataclasses import dataclass, field

from nmt.batching.batch import Batch, collate
from nmt.batching.plan import EpochPlan, SentenceLengths, plan_epoch
from nmt.text.prepared import PreparedSplit
from nmt.text.tokenizer import Tokenizers


@dataclass
class BatchStream:
    """Batches epoch after epoch, each of the plan's next few length groups.

    `budget` is what a group may hold in padded target tokens, `groups` how many make a batch. `epoch` and `group` say
    which comes next; a stream set to them goes on from there. A batch may end an epoch and begin the next.
    """

    split: PreparedSplit
    lengths: SentenceLengths
    tokenizers: Tokenizers
    budget: int
    seed: int
    groups: int = 1
    epoch: int = 0
    group: int = 0
    _planned: tuple[int, EpochPlan] | None = field(default=None, init=False)

    def next(self) -> Batch:
        """Return the next batch and move on."""
        chosen = []
        for _ in range(self.groups):
            planned = self.plan().groups
            chosen.append(planned[self.group])
            self.group += 1
            if self.group == len(planned):
                self.epoch, self.group = self.epoch + 1, 0
        return collate(self.split, chosen, self.tokenizers)

    def plan(self) -> EpochPlan:
        """Return the plan of the current epoch."""
        if self._planned is None or self._planned[0] != self.epoch:
            self._planned = self.epoch, plan_epoch(self.lengths, self.budget, self.seed, self.epoch)
        return self._planned[1]

    @property
    def epochs_read(self) -> float:
        """Return how often the corpus has been read, with the part of the current epoch."""
        return self.epoch + self.group / len(self.plan().groups)
