"""How many tokens a batch may hold: as many as the memory does, found by trial before a run begins.

What an update needs grows as a straight line with the tokens of its batch. Two sizes of trial batch give the line, and
the line the size at which the memory is full. The trial batches are the largest of an epoch; should another epoch have
a larger one that does not fit, it is cut. (Marian's `mini-batch-fit` has the same purpose.)
"""

import gc
import os
import threading
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import torch

from nmt.batching.batch import Batch, collate
from nmt.batching.plan import SentenceLengths, plan_epoch
from nmt.batching.resegmentation import GROWTH
from nmt.config import Recipe, load_recipe
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer
from nmt.system import distributed
from nmt.system.device import choose_device, release_cached_memory
from nmt.text.prepared import PreparedCorpus
from nmt.training.fine_tuning import freeze
from nmt.training.run import RunDirectory
from nmt.training.step import Updater

Bytes = dict[str, int]
"""Amounts of memory by what limits it: "memory", and on a CPU also "address space" where that has a limit."""

MARGINS = {"cuda": 0.9, "cpu": 0.75}
"""Share of the memory that trial batches may fill. The rest is for what varies and for fragments, and on a CPU for the
kernels of ever new numbers of rows, which two trials do not show."""
MOST_ON_A_CPU = 4096
"""A CPU learns as many tokens a second from batches of 2,048 as from batches of 16,384, which make updates rarer."""
_FIRST_TRY = 512
_FAR = 8
"""A line through two points is not trusted beyond this many times the first."""
_LEAST = 64
_POLL_SECONDS = 0.0005
_GROUPS_LOOKED_AT = 50_000


def find_batch_tokens(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> int:
    """Return the largest `train.batch_tokens` whose shares fit in the memory of every process. Leaves nothing behind.

    On a CPU at most 4,096. Raises ConfigError where not even a small batch fits or memory cannot be measured.
    """
    free = {name: int(MARGINS[device.type] * amount) for name, amount in free_memory(device).items()}
    trial = Trial(recipe, corpus, device)
    most = MOST_ON_A_CPU if device.type == "cpu" else 2**31 - 1
    with torch.random.fork_rng([device] if device.type == "cuda" else []), distributed.single_process():
        size = trial.all_reduce_max(free, most)
        # where a line is drawn on from small batches to huge ones, and failing costs nothing
        while device.type == "cuda" and not trial.fits(size, free):
            size = size * 9 // 10
    trial.end()
    # a size that all processes can bear, and that does not look more exact than it is
    size = -int(distributed.all_reduce_max(-size)[0])
    return distributed.size() * max(_LEAST, size - size % _LEAST)


def settle_batch_tokens(
    recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory, restart: bool, say: Callable[[str], None]
) -> Recipe:
    """Return the recipe with a number as `train.batch_tokens`: if it says auto, the run's own, else one found now."""
    if recipe.train.batch_tokens != "auto":
        return recipe
    if distributed.size() > 1 and recipe.runtime.parallel == "fsdp":
        raise ConfigError("train.batch_tokens: auto cannot try how much a sharded model needs; give a number")
    before = None if restart else _number_of(run, recipe)
    device = choose_device(recipe.runtime)
    tokens = find_batch_tokens(recipe, corpus, device) if before is None else before
    reason = f"as many as fit in the memory of {device}" if before is None else f"as {run.path} began with"
    if tokens == distributed.size() * MOST_ON_A_CPU and device.type == "cpu" and before is None:
        reason = "more fit in the memory, but make a CPU no faster"
    say(f"train.batch_tokens: auto is {tokens:,}, {reason}")
    return with_batch_tokens(recipe, tokens)


def with_batch_tokens(recipe: Recipe, tokens: int) -> Recipe:
    """Return the recipe with another `train.batch_tokens`."""
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"batch_tokens": tokens})})


def _number_of(run: RunDirectory, recipe: Recipe) -> int | None:
    """Return what auto meant when the run began, None if it is another run, or has not begun."""
    if not run.recipe.exists():
        return None
    before = load_recipe(run.recipe)
    # a run that was stopped before its first checkpoint begins anew, but as the same run
    same = run.saved() or with_batch_tokens(recipe, before.train.budget) == before
    return before.train.budget if same else None


class Trial:
    """A model that makes a few updates on the batches that need most memory, and is thrown away."""

    def __init__(self, recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> None:
        self.recipe, self.corpus, self.device = recipe, corpus, device
        self.before = used_memory(device)
        self.updater: Updater | None = None
        self._steps = 0

    def all_reduce_max(self, free: Bytes, most: int) -> int:
        """Return the largest size whose batches fit in `free`, by the line through two smaller ones.

        Trials grow as far as the line says that they may: where memory has run out once, little of it comes back.
        """
        size = _FIRST_TRY
        while True:
            try:
                small, large = self.peak(size), self.peak(2 * size)
            except MemoryError:
                self.end()
                size //= 4
                if size < _LEAST:
                    raise self._hopeless() from None
                continue
            found = min(self._solve(size, small[name], large[name], free[name]) for name in free)
            if found < _FAR * size or _FAR * size >= most:
                return min(found, most)
            size = min(found // 4, most // 4)

    def _hopeless(self) -> ConfigError:
        return ConfigError(
            f"train.batch_tokens: auto found that not even a batch of {_LEAST} tokens fits in the memory of "
            f"{self.device}; make the model smaller"
        )

    def _solve(self, size: int, small: int, large: int, free: int) -> int:
        # of a tiny model the line is lost among other things, such as what the allocator keeps
        slope = max(1.0, (large - small) / size)
        growth = GROWTH if self.recipe.train.subword_sampling is not None else 1.0
        return max(0, int((free - (small - slope * size)) / (slope * growth)))

    def fits(self, size: int, free: Bytes) -> bool:
        """Tell whether updates on batches of this size stay within `free`."""
        try:
            peak = self.peak(size)
        except MemoryError:
            self.end()
            return False
        return all(peak[name] <= amount for name, amount in free.items())

    def peak(self, size: int) -> Bytes:
        """Return how much memory updates on batches of this size need at most, model and moments included.

        Raises MemoryError if there is not as much.
        """
        batches = worst_batches(self.recipe, self.corpus, size)

        def work() -> None:
            for batch in batches:
                self.update([batch] * min(2, self.recipe.train.accumulate))

        if self._steps == 0:
            # Adam's moments are there after an update
            work()
        peak = peak_memory(self.device, work)
        return {name: amount - self.before[name] for name, amount in peak.items()}

    def opened(self) -> Updater:
        """Return the model with its optimizer, as fresh as they were or after some updates."""
        if self.updater is None:
            tokenizers = self.corpus.tokenizers
            model = Transformer(self.recipe.model, len(tokenizers.source), len(tokenizers.target))
            freeze(model, self.recipe.train.freeze)
            self.updater = Updater(model, self.recipe, tokenizers.target.pad_id, self.device)
        return self.updater

    def update(self, batches: list[Batch]) -> None:
        """Make one update. Raises MemoryError if it does not fit."""
        self._steps += 1
        updater = self.opened()
        try:
            fits = updater.update(batches, self._steps).adjustments.largest_batch is None
        except ConfigError:
            fits = False  # not even a single pair does
        if not fits:
            raise MemoryError("the updater had to cut the batch")

    def end(self) -> None:
        """Give all memory back."""
        self.updater, self._steps = None, 0
        gc.collect()
        release_cached_memory(self.device)


def worst_batches(recipe: Recipe, corpus: PreparedCorpus, size: int) -> list[Batch]:
    """Return the batch of most tokens and the one of longest sentences of an epoch.

    Any neighbours in the plan count as a batch: several times as many as are read, as other epochs have others.
    """
    lengths = SentenceLengths.of(corpus.train)
    count = recipe.train.length_groups
    groups = plan_epoch(lengths, max(1, size // count), recipe.seed, epoch=0).groups[:_GROUPS_LOOKED_AT]
    groups += list(islice(cycle(groups), count - 1))  # after the last comes another epoch's first
    shapes = [(len(group), int(lengths.source[group].max()), int(lengths.target[group].max())) for group in groups]
    sentences, source, target = np.array(shapes).T
    tokens = sentences * (source + target)
    weights = sentences * (source**2 + source * target + target**2)
    starts = [int(np.convolve(cost, np.ones(count), "valid").argmax()) for cost in (tokens, weights)]
    return [collate(corpus.train, groups[start : start + count]) for start in starts]


def free_memory(device: torch.device) -> Bytes:
    """Return how much more memory this process may use on a device. Raises ConfigError where nothing tells."""
    if device.type == "cuda":
        unused, _ = torch.cuda.mem_get_info(device)
        return {"memory": unused + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)}
    if device.type != "cpu" or not Path("/proc/self/statm").exists():
        raise ConfigError(
            f"train.batch_tokens: auto cannot measure memory of {device} on this system; give a number, such as 4096"
        )
    import resource

    limits = [_available(), *_left_in_control_groups()]
    free = {"memory": min(limits) // distributed.size()}
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        free["address space"] = limit - used_memory(device)["address space"]
    return free


def used_memory(device: torch.device) -> Bytes:
    """Return how much memory this process uses on a device now."""
    if device.type == "cuda":
        return {"memory": torch.cuda.memory_allocated(device)}
    size, resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[:2]
    page = os.sysconf("SC_PAGE_SIZE")
    return {"memory": int(resident) * page, "address space": int(size) * page}


def peak_memory(device: torch.device, work: Callable[[], None]) -> Bytes:
    """Do some work and return how much memory the process used at most meanwhile."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        work()
        return {"memory": torch.cuda.max_memory_allocated(device)}
    peak, done = used_memory(device), threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            for name, amount in used_memory(device).items():
                peak[name] = max(peak[name], amount)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return peak


def _available() -> int:
    """Return what the system could give, in bytes."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def _left_in_control_groups() -> list[int]:
    """Return what each control group that holds this process, such as a container's, has left.

    Pages of files that were read a while ago count as left, for the system gives them up when asked.
    """
    left = []
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root = Path("/sys/fs/cgroup", controllers)
        # of version 1, which has controllers, and of version 2
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        group = root / path.lstrip("/")
        # inside a container, the path may be that outside of it
        for folder in {root, group, *group.parents}:
            try:
                limit, usage = ((folder / name).read_text(encoding="ascii").strip() for name in names)
                counts = dict(
                    line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines()
                )
            except OSError:
                continue
            if limit != "max":
                left.append(int(limit) - int(usage) + int(counts["inactive_file"]))
    return left
