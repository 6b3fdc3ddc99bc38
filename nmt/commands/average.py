"""Average the weights of several checkpoints into one model.

Vaswani et al. (2017, section 6.1) evaluate the mean of the last checkpoints of a training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nmt.config import load_recipe
from nmt.config.section import differences
from nmt.errors import ConfigError, ModelError
from nmt.kernels.constant_products import Floats
from nmt.model.checkpoint import write_model
from nmt.model.stored import LoadedModel, check_shapes, largest_limits, read_model, resolve_model
from nmt.system.console import Console, counted
from nmt.system.files import new_directory
from nmt.training.progress import RUN, read_progress
from nmt.training.run import RunDirectory

# Checkpoints of one training, and models fine-tuned from one, were measured to have a cosine of 0.56 to 0.99; models
# that were trained from different random weights, of -0.05 to 0.02, and their mean translates nothing.
_LEAST_COSINE = 0.1


def average(sources: Sequence[Path], output: Path, console: Console, last: int | None, best: int | None) -> None:
    """Write a model directory with the mean of the weights of a run's checkpoints, or of several models.

    For one run, the `last` or the `best` checkpoints are averaged, by default all of the best that it keeps; for
    several runs, the best of each. Raises ConfigError if there are fewer checkpoints than requested, or if there is
    something at `output`, ModelError if models differ in settings or tokenizers, or have nothing in common.
    """
    if len(sources) > 1 and (last is not None or best is not None):
        raise ConfigError("--last and --best choose among the checkpoints of one run; give one run, or neither of them")
    directories = [resolve_model(source) for source in sources]
    if len(sources) == 1:
        directories = checkpoints(RunDirectory(sources[0]), last, best)
    if RUN.read(output.absolute().parent.parent) and output.absolute().parent.name == "checkpoints":
        raise ConfigError(f"{output}: a training that is resumed removes what is not its own there; give another name")
    with new_directory(output) as staging:  # first, since the output may be refused
        write_model(staging, mean(directories), averaged_from=list(map(str, directories)))
    console.info(f"averaged {', '.join(str(directory) for directory in directories)} into {output}")


def checkpoints(run: RunDirectory, last: int | None, best: int | None) -> list[Path]:
    """Return a run's last or best checkpoints. Raises ConfigError if it has fewer."""
    saved = run.saved()
    if not saved:
        raise ConfigError(f"{run.path}: expected a run with checkpoints, found none; give a run, or several models")
    if last is not None and best is not None:
        raise ConfigError("--last and --best: give one of them, not both")
    if last is not None:
        chosen = saved[-last:]
    else:
        ranked, keep_best = read_progress(saved[-1]).best, load_recipe(run.recipe).train.keep_best
        if not ranked:
            raise ConfigError(
                f"{run.path}: no checkpoint is the best, since none was measured on validation text (data.valid); "
                "average the last ones with --last N"
            )
        count = best or (None if keep_best == "all" else keep_best)
        chosen = [place for *_, step in ranked[:count] if (place := run.checkpoint(step)) in saved]
    if len(chosen) < (expected := last or best or 1):
        raise ConfigError(
            f"{run.path}: found {counted(len(chosen), 'such checkpoint')}, expected {expected}; "
            "train.keep_best sets how many a training keeps on disk"
        )
    return chosen


def mean(directories: Sequence[Path]) -> LoadedModel:
    """Return the first model with the mean of the weights of all, computed in float64, and the largest limits.

    Raises ModelError if they differ in settings (dropout excepted), languages or tokenizers, or are of unrelated
    trainings.
    """
    here, first = directories[0], read_model(directories[0])
    sums = {name: weight.astype(np.float64) for name, weight in first.weights.items()}
    limits = [(first.decode.max_length, first.longest_source)]
    for path in directories[1:]:
        other = read_model(path)
        for key, before, now in differences(first.settings.model_dump(), other.settings.model_dump()):
            if not key.endswith("dropout"):
                raise ModelError(f"{path}: model.{key} is {now}, but {before} in {here}; average models of one shape")
        if other.languages != first.languages:
            names = f"{other.languages.names}, but {first.languages.names} in {here}"
            raise ModelError(f"{path}: its languages are {names}; average models of the same languages")
        if first.tokenizers.different_side(other.tokenizers):
            advice = "average models that share a tokenizer"
            raise ModelError(f"{path}: its tokenizer differs from that of {here}; {advice}")
        check_shapes(other.file, other.weights, {name: weight.shape for name, weight in first.weights.items()})
        if (cosine := _cosine(first.weights, other.weights)) < _LEAST_COSINE:
            raise ModelError(
                f"{path}: its weights and those of {here} have a cosine of {cosine:.2f}, so they were trained from "
                "different random weights, and their mean is no translator; average checkpoints of one training, or "
                "models fine-tuned from one, and translate with both as an ensemble: nmt translate --model A --model B"
            )
        limits.append((other.decode.max_length, other.longest_source))
        for name, weight in other.weights.items():
            sums[name] += weight
    weights = {name: (weight_sum / len(directories)).astype(np.float32) for name, weight_sum in sums.items()}
    max_length, longest_source = largest_limits(limits)
    decode = first.decode.model_copy(update={"max_length": max_length})
    return replace(first, weights=weights, decode=decode, longest_source=longest_source)


def _cosine(first: Mapping[str, Floats], second: Mapping[str, Floats]) -> float:
    """Return the cosine between the matrices of two models, all of a model as one vector."""
    names = [name for name, weight in first.items() if weight.ndim > 1]
    a, b = (np.concatenate([weights[name].ravel() for name in names]) for weights in (first, second))
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-8))
