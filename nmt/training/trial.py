"""The cost of a training before it starts: trial updates, and the minutes of a proposal by the speed of products."""

import gc
import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from nmt.batching.batch import Batch
from nmt.batching.batch_stream import BatchStream
from nmt.config import Recipe, RuntimeSettings, load_recipe
from nmt.config.section import SettingError
from nmt.errors import is_oom
from nmt.kernels.device import (
    choose_device,
    free_memory,
    kernels_for,
    peak_memory,
    precision_for,
    release_cached_blocks,
    set_threads,
)
from nmt.kernels.reference import Kernels
from nmt.system import distributed
from nmt.system.console import Console
from nmt.text.prepared import PreparedCorpus
from nmt.text.proposal import Proposal
from nmt.training.display import format_seconds
from nmt.training.optimizer import initial_model
from nmt.training.resume import with_batch_tokens
from nmt.training.run import RunDirectory
from nmt.training.update import Updater

# Tokens of a process with which `batch_tokens: auto` begins and ends. Larger batches only make updates rarer: a CPU
# processes as many tokens a second with 2,048 as with 16,384. Trials measure device memory only: without it,
# the number is fixed.
_FIRST_TOKENS, _MOST_TOKENS, _TOKENS_WITHOUT_TRIAL = 2048, 32_768, 4096
# share of the free device memory for the largest batches: recorded updates have memory of their own
_USABLE_MEMORY = 0.45
_TIMED_UPDATES = 3
_SMALLEST, _LARGEST, _PRODUCTS = 1024, 8192, 12  # sizes of matrices whose products are timed, and products of each


def trial(
    recipe: Recipe, corpus: PreparedCorpus, device: torch.device, timed: bool = True
) -> tuple[float, float, float]:
    """Compute with a model that is discarded: the largest batches, and if `timed` a few updates. Collective.

    Returns the most bytes of device memory that a rank has for the largest batches (infinity if they do not fit, 0
    where it is the RAM), and the target tokens of all ranks and the seconds of an update.
    """
    stream, accumulate = BatchStream.of_recipe(recipe, corpus), recipe.train.accumulate
    updater = Updater(initial_model(recipe, corpus.tokenizers, pretrained=False), recipe, device)
    stream.sizes = updater.kernels.sizes
    with peak_memory(device) as reserved:
        fits = free_memory(device) is None or _fits(updater, stream)
    peak = max(peak for (peak,) in distributed.exchange(reserved[0] if fits else math.inf))
    is_timed = timed and peak < math.inf
    updates = [[stream.next() for _ in range(accumulate)] for _ in range(_TIMED_UPDATES)] if is_timed else []
    # on a CPU one update is enough to warm up; on a GPU an update is recorded when its shape comes again
    warm_up = updates[:1] if free_memory(device) is None else 2 * updates
    tokens, seconds = 0, 0.0
    for number, batches in enumerate([*warm_up, *updates]):
        of_rank = sum(batch.target_tokens for batch in batches)
        count = int(sum(count for (count,) in distributed.exchange(of_rank)))
        started = time.perf_counter()
        updater.update(batches, 1, count).results()
        if number >= len(warm_up):
            tokens, seconds = tokens + count, seconds + time.perf_counter() - started
    del updater
    gc.collect()
    release_cached_blocks(device)
    return peak, tokens / _TIMED_UPDATES, seconds / _TIMED_UPDATES


def largest_batches(stream: BatchStream) -> list[Batch]:
    """Return the batch of most tokens and the one of longest sentences in the plan of a window, this rank's share.

    Any adjacent groups of the plan count as a batch, as other epochs combine them differently. A corpus of several
    windows may have longer sentences in another one; a window is a random sample of a million pairs.
    """
    plan, split = stream.plan(), stream.split
    sentences = np.array([len(group) for group in plan])
    starts = np.cumsum(sentences) - sentences
    lengths = split.lengths(np.concatenate(plan))
    rows = np.add.reduceat(sum(lengths), starts)
    source, target = (np.maximum.reduceat(side, starts) for side in lengths)
    batches = []
    for cost in (rows, sentences * (source**2 + source * target + target**2)):
        # after the last group comes the next epoch
        adjacent = np.convolve(np.resize(cost, len(cost) + stream.groups - 1), np.ones(stream.groups), "valid")
        chosen = (int(adjacent.argmax()) + np.arange(stream.groups)) % len(plan)
        batches.append(stream.batch([stream.share(plan[index], int(index)) for index in chosen]))
    return batches


def _fits(updater: Updater, stream: BatchStream) -> bool:
    """Return whether the gradients of the largest batches can be computed, and discard them."""
    try:
        # in the place of Adam's moments, which it allocates in the first update only
        _moments = [] if updater.optimizer.state else [torch.empty_like(updater.weights.all) for _ in range(2)]
        updater.kernels.seed(0)
        for batch in largest_batches(stream):
            updater.backward_pass(batch.copied(updater.kernels.to_device))
    except (RuntimeError, MemoryError) as error:
        if not is_oom(error):
            raise
        return False
    return True


def check_largest_batches(updater: Updater, stream: BatchStream) -> None:
    """Raise SettingError, which names a size that fits, if the largest batches do not fit into the device's memory.

    So the error is raised before the first update, not after hours. Training reuses the allocated memory.
    """
    if free_memory(updater.device) is None:
        return
    recipe, factor = updater.recipe, 1
    budget, fits = recipe.train.budget, _fits(updater, stream)
    while not fits and 2 * factor <= stream.budget:
        factor *= 2
        release_cached_blocks(updater.device)
        fits = _fits(updater, replace(stream, budget=stream.budget // factor, sizes=None))
    if factor == 1:
        return
    advice = "and no smaller one does: make the model smaller"
    if fits:
        advice = (
            f"but {budget // factor:,} fit: for updates of the same size, set it to {budget // factor} and "
            f"train.accumulate to {factor * recipe.train.accumulate}"
        )
    problem = f"a batch of {budget:,} tokens does not fit into the memory of {updater.device}"
    raise SettingError("train.batch_tokens", f"{problem}, {advice}")


def choose_settings(
    recipe: Recipe, corpus: PreparedCorpus, run: RunDirectory, restart: bool, console: Console
) -> Recipe:
    """Return the recipe with a number as `train.batch_tokens`, and fp32 or bf16 as `runtime.precision`.

    A run that continues keeps what it has recorded, so that it resumes bit for bit also on another machine. Collective.
    """
    device = choose_device(recipe.runtime)
    before = load_recipe(run.recipe) if run.saved() and not restart else None
    recorded = f"as recorded in {run.path}"
    if recipe.runtime.precision == "auto":
        chosen = before.runtime.precision if before else precision_for(recipe.runtime, device, recipe.model.dim)
        if chosen == "bf16":
            console.info(f"runtime.precision: auto is bf16, {recorded if before else 'which is fast here'}")
        runtime = recipe.runtime.model_copy(update={"precision": chosen})
        recipe = recipe.model_copy(update={"runtime": runtime})
    if recipe.train.batch_tokens == "auto":
        tokens = before.train.budget if before else find_batch_tokens(recipe, corpus, device)
        console.info(f"train.batch_tokens: auto is {tokens:,}{f', {recorded}' if before else ''}")
        recipe = with_batch_tokens(recipe, tokens)
    return recipe


def find_batch_tokens(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> int:
    """Return the largest power of two that fits into the memory of each rank, times the number of ranks. Collective."""
    size, ranks = _TOKENS_WITHOUT_TRIAL, distributed.world_size()
    if (own_free := free_memory(device)) is not None:
        size = _FIRST_TOKENS  # if it does not fit, `check_largest_batches` names a size that does
        free = min(free for (free,) in distributed.exchange(own_free))
        while size < _MOST_TOKENS:
            peak, _, _ = trial(with_batch_tokens(recipe, 2 * size * ranks), corpus, device, timed=False)
            if peak > _USABLE_MEMORY * free:
                break
            size *= 2
    return size * ranks


def estimate(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> str:
    """Return the memory and the speed of a training, and the time to each limit, a line each. Collective."""
    train, stream = recipe.train, BatchStream.of_recipe(recipe, corpus)
    updates = stream.batches_an_epoch / train.accumulate  # in an epoch
    free = free_memory(device) or 0
    peak, tokens, seconds = trial(recipe, corpus, device)
    parameters = recipe.model.weight_count(len(corpus.tokenizers.source), len(corpus.tokenizers.target))
    rows = [("parameters", f"{parameters:,}"), ("weights and moments", f"{16 * parameters / 2**30:,.2f} GiB")]
    if free:
        needed = f"{peak / 2**30:,.2f} GiB for" if seconds else "not enough for"
        each = " on each rank" if distributed.world_size() > 1 else ""
        rows.append(("memory", f"{needed} the largest batches{each}; {free / 2**30:,.2f} GiB are free"))
    if seconds:
        rows.append(("speed", f"{tokens / seconds:,.0f} target tokens/s, {seconds:.2f} s an update"))
        rows.append(("an epoch", f"{format_seconds(updates * seconds)}, {updates:,.1f} updates"))
        per_unit = {"steps": 1.0, "minutes": 60 / seconds, "hours": 3600 / seconds}
        for name in ("steps", "epochs", "minutes", "hours"):
            if (limit := getattr(train.stop, name)) is not None:
                is_epochs = name == "epochs"  # which end with a whole update
                count = stream.updates_in(limit, train.accumulate) if is_epochs else limit * per_unit[name]
                after = f"{format_seconds(count * seconds)}, after {count:,.0f} updates"
                rows.append((f"train.stop.{name} {limit:,.12g}", after))
    lines = [f"{name:<{max(len(name) for name, _ in rows) + 2}}{value}" for name, value in rows]
    ranks = f"{distributed.world_size()} × " if distributed.world_size() > 1 else ""
    return "\n".join([f"{recipe.name} on {ranks}{device}", *lines, "(times without validations)\n"])


def cost(propose_for: Callable[[str, float], Proposal]) -> tuple[Proposal, str, tuple[float, float]]:
    """Choose the device, measure how fast it is, and make the proposal for it and its operations a second.

    Returns the proposal, the type of the device, and the range of minutes that it takes.
    """
    runtime = RuntimeSettings()
    device = choose_device(runtime)
    set_threads(runtime)
    kernels = kernels_for(device, precision_for(runtime, device))
    rate = matrix_rate(kernels)
    low, high = (share * rate for share in kernels.utilization)
    proposal = propose_for(kernels.kind, math.sqrt(low * high))
    return proposal, kernels.kind, (proposal.operations / high / 60, proposal.operations / low / 60)


def matrix_rate(kernels: Kernels) -> float:
    """Measure the floating-point operations a second of a large matrix product.

    The fastest of several products counts, and they are short, so that other programs seldom interrupt them: matrices
    of 1,024 rows, or of more where that takes less than a millisecond. They hold random numbers of the final type: GPUs
    multiply constants faster, and nothing is converted.
    """
    size, fastest = _SMALLEST, 0.0
    while fastest < 1e-3 and size <= _LARGEST:
        a = kernels.rounded(torch.randn(size, size, generator=torch.Generator().manual_seed(0)).to(kernels.device))
        seconds = []
        with torch.no_grad():
            for _ in range(_PRODUCTS):  # the first ones are slow
                started = time.perf_counter()
                kernels.product(a, a)[0, 0].item()  # waits for the device
                seconds.append(time.perf_counter() - started)
        rate, fastest = 2 * size**3 / min(seconds), min(seconds)
        size *= 2
    return rate
