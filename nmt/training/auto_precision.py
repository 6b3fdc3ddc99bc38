"""`precision: auto` on a CPU: training computes in bf16 if a trial shows that its products are faster than in fp32."""

import time
from collections.abc import Callable
from itertools import product

import torch

from nmt.config import ModelSettings, Recipe, RuntimeSettings, load_recipe
from nmt.model.kernels import kernels
from nmt.system import distributed
from nmt.system.device import autocast, choose_device
from nmt.training.run import RunDirectory

_ROWS, _WIDTH = 512, 512
_TRIALS = 8
_MIN_GAIN = 1.2
_MIN_DIM = 128  # narrower models gain nothing: converting numbers takes as long as it saves (benchmarks/RESULTS.md)


def choose_precision(recipe: Recipe, run: RunDirectory, restart: bool, info: Callable[[str], None]) -> Recipe:
    """Return the recipe with fp32 or bf16 as `runtime.precision` where it is auto and the device a CPU.

    An existing run keeps its precision, so that it resumes bit for bit also on another machine. Collective.
    """
    runtime = recipe.runtime
    if runtime.precision != "auto" or choose_device(runtime).type != "cpu":
        return recipe
    if not restart and run.saved() and run.recipe.exists():
        # runs of versions without this choice recorded auto and computed in fp32
        bf16, reason = load_recipe(run.recipe).runtime.precision == "bf16", f"as recorded in {run.path}"
    else:
        gain = -distributed.all_reduce_max(-bf16_gain(recipe.model))[0]
        bf16, reason = gain >= _MIN_GAIN, f"whose matrix products are {gain:.1f} times as fast as in fp32"
    if bf16:
        info(f"runtime.precision: auto is bf16, {reason}")
    chosen = runtime.model_copy(update={"precision": "bf16" if bf16 else "fp32"})
    return recipe.model_copy(update={"runtime": chosen})


def bf16_gain(model: ModelSettings) -> float:
    """Return how many times as fast as in fp32 a feed-forward product is in bf16.

    0 where bf16 is emulated, and for models that are too narrow for a gain.
    """
    if not kernels.has_bf16 or model.dim < _MIN_DIM:
        return 0.0
    x, weight = torch.ones(_ROWS, _WIDTH), torch.ones(4 * _WIDTH, _WIDTH)
    fastest = dict.fromkeys(("fp32", "bf16"), float("inf"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the time of a thread does not depend on what else runs, that of several does
    try:
        for _, precision in product(range(_TRIALS), fastest):
            with torch.no_grad(), autocast(RuntimeSettings.model_validate({"precision": precision}), x.device):
                started = time.thread_time()
                kernels.linear(x, weight)
                fastest[precision] = min(fastest[precision], time.thread_time() - started)
    finally:
        torch.set_num_threads(threads)
    return fastest["fp32"] / fastest["bf16"]
