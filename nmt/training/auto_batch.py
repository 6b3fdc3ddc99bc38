"""`batch_tokens: auto`: on a GPU the largest batch that fits into its memory, found by trial updates.

The memory of an update grows about linearly with the tokens of its batch. Two sizes of trial batch determine the line,
and the line the size at which the memory is full. The trial batches are the largest of an epoch; a larger one of
another epoch that does not fit is cut (`Updater.dispatch`). (Marian's `mini-batch-fit` has the same purpose.)
"""

import gc
from collections.abc import Callable
from itertools import cycle, islice

import numpy as np
import torch

from nmt.batching.batch import Batch, collate
from nmt.batching.batch_stream import SentenceLengths, plan_epoch
from nmt.batching.resegmentation import GROWTH
from nmt.config import Recipe, load_recipe
from nmt.errors import ConfigError
from nmt.system import distributed
from nmt.system.device import choose_device, is_oom, release_cached_blocks
from nmt.text.prepared import PreparedCorpus
from nmt.training.initialization import initial_model
from nmt.training.resume import with_batch_tokens
from nmt.training.run import RunDirectory
from nmt.training.step import Updater

# Tokens of a process beyond which larger batches only make updates rarer: a CPU processes as many tokens a second with
# 2,048 as with 16,384. Only on CUDA is there a measurement whether fewer fit.
MAX_BATCH_TOKENS = {"cpu": 4096, "mps": 4096, "cuda": 32_768}
_MARGIN = 0.9  # share of the free memory that trial batches may use; the rest is for fragmentation
_FIRST_TRIAL = 512
_MIN_BATCH_TOKENS = 64
_MAX_GROUPS = 50_000  # length groups of an epoch among which the largest batch is searched for


def choose_batch_tokens(
    recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory, restart: bool, info: Callable[[str], None]
) -> Recipe:
    """Return the recipe with a number as `train.batch_tokens`; for auto that of the existing run, else a new one."""
    if recipe.train.batch_tokens != "auto":
        return recipe
    if distributed.world_size() > 1 and recipe.runtime.parallel == "fsdp":
        raise ConfigError("train.batch_tokens: auto cannot measure the memory of a sharded model; give a number")
    before = None if restart else _recorded(run, recipe)
    if before is not None:
        tokens, reason = before, f"as recorded in {run.path}"
    else:
        device = choose_device(recipe.runtime)
        tokens = find_batch_tokens(recipe, corpus, device)
        full = tokens == distributed.world_size() * MAX_BATCH_TOKENS[device.type]
        reason = f"more make {device.type} no faster" if full else f"as many as fit into the memory of {device}"
    info(f"train.batch_tokens: auto is {tokens:,}, {reason}")
    return with_batch_tokens(recipe, tokens)


def _recorded(run: RunDirectory, recipe: Recipe) -> int | None:
    """Return the number in the recipe of an existing run, None if there is none or it has another recipe."""
    if not run.recipe.exists():
        return None
    before = load_recipe(run.recipe)
    # a run without checkpoints may start again with another recipe
    same = run.saved() or with_batch_tokens(recipe, before.train.budget) == before
    return before.train.budget if same else None


def find_batch_tokens(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> int:
    """Return the largest `train.batch_tokens` whose shards fit into every rank's memory, within `MAX_BATCH_TOKENS`.

    Raises ConfigError if not even a small batch fits. Collective.
    """
    size = MAX_BATCH_TOKENS[device.type]
    if device.type == "cuda":
        free = int(_MARGIN * free_device_memory(device))
        growth = GROWTH if recipe.train.subword_sampling is not None else 1.0
        trial = Trial(recipe, corpus, device)
        with torch.random.fork_rng([device]):
            size = largest_fitting(trial.peak, free, size, growth)
            while trial.peak(size) > free and size > _MIN_BATCH_TOKENS:
                size = size * 9 // 10
        trial.close()
        size = -int(distributed.all_reduce_max(-size)[0])
    return distributed.world_size() * max(_MIN_BATCH_TOKENS, size - size % _MIN_BATCH_TOKENS)


def largest_fitting(peak: Callable[[int], float], free: float, max_size: int, growth: float = 1.0) -> int:
    """Return the largest size up to `max_size` with peak(size) ≤ free, by lines through peak(n) and peak(2n).

    A line is used up to 4n, so that no trial needs much more than `free`. peak returns infinity where memory ran
    out. Subword sampling lengthens batches by the factor `growth`. Raises ConfigError if not even 64 tokens fit.
    """
    size = _FIRST_TRIAL
    while True:
        small, large = peak(size), peak(2 * size)
        if large == float("inf"):
            size //= 4
            if size < _MIN_BATCH_TOKENS:
                raise ConfigError(
                    f"train.batch_tokens: auto found that not even a batch of {_MIN_BATCH_TOKENS} tokens fits into "
                    "memory; make the model smaller"
                )
            continue
        # with a tiny model the allocator rounds both sizes up to the same number
        slope = max(1.0, (large - small) / size)
        fitting = int((free - (small - slope * size)) / (slope * growth))
        if fitting < 4 * size or 4 * size >= max_size:
            return min(max(0, fitting), max_size)
        size *= 2


class Trial:
    """An updater for a few updates on this rank alone; it is discarded afterwards."""

    def __init__(self, recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> None:
        self.recipe, self.corpus, self.device = recipe, corpus, device
        self._open()

    def _open(self) -> None:
        model = initial_model(self.recipe, self.corpus.tokenizers, pretrained=False)
        self.updater = Updater(model, self.recipe, self.device, alone=True)

    def update(self, batches: list[Batch]) -> None:
        """Make one update, with a learning rate of zero. Raises DoesNotFitError, as the allocator, or ConfigError."""
        self.updater.accumulate_gradients(batches, sum(batch.target_tokens for batch in batches), step=1)
        self.updater.clip_gradients()
        self.updater.apply_gradients(rate=0.0, step=1)
        self.updater.optimizer.zero_grad(set_to_none=True)

    def peak(self, size: int) -> float:
        """Return the bytes that CUDA reserves for updates on batches of a size; infinity if they do not fit.

        That includes weights and moments: the device must have what the allocator reserves.
        """
        batches = worst_batches(self.recipe, self.corpus, size)
        try:
            self.update(batches[:1])  # allocates Adam's moments
            release_cached_blocks(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            for batch in batches:
                self.update([batch] * min(2, self.recipe.train.accumulate))
            return torch.cuda.max_memory_reserved(self.device)
        except (RuntimeError, MemoryError) as error:
            if not is_oom(error):
                raise
        # outside the handler, where the traceback of the failure no longer holds the activations
        self.close()
        self._open()
        return float("inf")

    def close(self) -> None:
        """Release all memory."""
        del self.updater
        gc.collect()
        release_cached_blocks(self.device)


def worst_batches(recipe: Recipe, corpus: PreparedCorpus, size: int) -> list[Batch]:
    """Return the batch of most tokens and the one of longest sentences of an epoch.

    Any adjacent groups of the plan count as a batch, as other epochs combine them differently.
    """
    lengths = SentenceLengths.of(corpus.train)
    count = recipe.train.length_groups
    groups = plan_epoch(lengths, max(1, size // count), recipe.seed, epoch=0)[:_MAX_GROUPS]
    groups += list(islice(cycle(groups), count - 1))  # after the last one comes the next epoch
    shapes = [(len(group), int(lengths.source[group].max()), int(lengths.target[group].max())) for group in groups]
    sentences, source, target = np.array(shapes).T
    tokens = sentences * (source + target)
    attention = sentences * (source**2 + source * target + target**2)
    starts = [int(np.convolve(cost, np.ones(count), "valid").argmax()) for cost in (tokens, attention)]
    return [collate(corpus.train, groups[start : start + count]) for start in starts]


def free_device_memory(device: torch.device) -> int:
    """Return the bytes of a CUDA device that this process may use, its own reserve included."""
    unused, _ = torch.cuda.mem_get_info(device)
    return unused + torch.cuda.memory_reserved(device)
