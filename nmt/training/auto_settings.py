"""Settings that are `auto` in a recipe: measured when a run begins, and recorded with it.

`batch_tokens: auto` is on a GPU the largest batch that fits into its memory. The memory of an update grows about
linearly with the tokens of its batch. Two sizes of trial batch determine the line, and the line the size at which the
memory is full. The trial batches are the largest of an epoch; a larger one of another epoch that does not fit is cut
(`Updater.dispatch`). (Marian's `mini-batch-fit` has the same purpose.)

`precision: auto` is on a CPU bf16, if a trial shows that its products are faster than in fp32.
"""

import time
from collections.abc import Callable
from itertools import product

import torch

from nmt.batching.batch_stream import GROWTH
from nmt.config import ModelSettings, Recipe, RuntimeSettings, load_recipe
from nmt.errors import ConfigError
from nmt.model import cpu
from nmt.system import distributed
from nmt.system.device import autocast, choose_device
from nmt.text.prepared import PreparedCorpus
from nmt.training.resume import with_batch_tokens
from nmt.training.run import RunDirectory
from nmt.training.trial import Trial, free_device_memory

# Tokens of a process beyond which larger batches only make updates rarer: a CPU processes as many tokens a second with
# 2,048 as with 16,384. Only on CUDA is there a measurement whether fewer fit.
MAX_BATCH_TOKENS = {"cpu": 4096, "mps": 4096, "cuda": 32_768}
_MARGIN = 0.9  # share of the free memory that trial batches may use; the rest is for fragmentation
_FIRST_TRIAL = 512
_MIN_BATCH_TOKENS = 64

_ROWS, _WIDTH = 512, 512
_TRIALS = 8
_MIN_GAIN = 1.2
_MIN_DIM = 128  # narrower models gain nothing: converting numbers takes as long as it saves (benchmarks/RESULTS.md)


def choose_settings(
    recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory, restart: bool, info: Callable[[str], None]
) -> Recipe:
    """Return the recipe with a number as `train.batch_tokens` and, on a CPU, fp32 or bf16 as `runtime.precision`.

    A run that continues keeps what it has recorded, so that it resumes bit for bit also on another machine. Collective.
    """
    device = choose_device(recipe.runtime)
    before = None if restart else _recorded(recipe, run)
    if recipe.runtime.precision == "auto" and device.type == "cpu":
        if before is None:
            gain = -distributed.all_reduce_max(-bf16_gain(recipe.model))[0]
            bf16, reason = gain >= _MIN_GAIN, f"whose matrix products are {gain:.1f} times as fast as in fp32"
        else:
            # runs of versions without this choice recorded auto and computed in fp32
            bf16, reason = before.runtime.precision == "bf16", f"as recorded in {run.path}"
        if bf16:
            info(f"runtime.precision: auto is bf16, {reason}")
        recipe = _with_precision(recipe, "bf16" if bf16 else "fp32")
    if recipe.train.batch_tokens == "auto":
        if distributed.world_size() > 1 and recipe.runtime.parallel == "fsdp":
            raise ConfigError("train.batch_tokens: auto cannot measure the memory of a sharded model; give a number")
        if before is None:
            tokens = find_batch_tokens(recipe, corpus, device)
            full = tokens == distributed.world_size() * MAX_BATCH_TOKENS[device.type]
            reason = (
                f"larger batches are no faster on {device.type}"
                if full
                else f"as many as fit into the memory of {device}"
            )
        else:
            tokens, reason = before.train.budget, f"as recorded in {run.path}"
        info(f"train.batch_tokens: auto is {tokens:,}, {reason}")
        recipe = with_batch_tokens(recipe, tokens)
    return recipe


def _recorded(recipe: Recipe, run: RunDirectory) -> Recipe | None:
    """Return the recipe of an existing run that this recipe continues; None if there is none."""
    if not run.recipe.exists():
        return None
    before = load_recipe(run.recipe)
    measured = _with_precision(with_batch_tokens(recipe, before.train.budget), before.runtime.precision)
    # a run without checkpoints may start again with another recipe
    return before if run.saved() or measured == before else None


def _with_precision(recipe: Recipe, precision: str) -> Recipe:
    return recipe.model_copy(update={"runtime": recipe.runtime.model_copy(update={"precision": precision})})


def find_batch_tokens(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> int:
    """Return the largest `train.batch_tokens` whose shares fit into the memory of the ranks.

    It is at most `MAX_BATCH_TOKENS` for each rank.

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


def bf16_gain(model: ModelSettings) -> float:
    """Return how many times as fast as in fp32 a feed-forward product is in bf16.

    0 where bf16 is emulated, and for models that are too narrow for a gain.
    """
    if not cpu.kernels.bf16 or model.dim < _MIN_DIM:
        return 0.0
    x, weight = torch.ones(_ROWS, _WIDTH), torch.ones(4 * _WIDTH, _WIDTH)
    fastest = dict.fromkeys(("fp32", "bf16"), float("inf"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the time of a thread does not depend on what else runs, that of several does
    try:
        for _, precision in product(range(_TRIALS), fastest):
            with torch.no_grad(), autocast(RuntimeSettings.model_validate({"precision": precision}), x.device):
                started = time.thread_time()
                cpu.linear(x, weight)
                fastest[precision] = min(fastest[precision], time.thread_time() - started)
    finally:
        torch.set_num_threads(threads)
    return fastest["fp32"] / fastest["bf16"]
