"""Fine-tuning: training that begins with a trained model, and may leave parts of it as they are."""

from fnmatch import fnmatchcase
from pathlib import Path

from torch import nn

from nmt.errors import ConfigError
from nmt.model.checkpoint import WEIGHTS_FILE, load_weights, read_configuration
from nmt.model.transformer import Transformer


def init_from(model: Transformer, directory: Path) -> None:
    """Fill a model with the weights of a model directory. Raises ModelError if they are damaged or do not fit."""
    read_configuration(directory)
    load_weights(model, directory / WEIGHTS_FILE)


def freeze(model: nn.Module, patterns: tuple[str, ...]) -> None:
    """Take the weights whose names match a pattern out of learning; a tied matrix answers to each of its names.

    Raises ConfigError for a pattern that matches nothing, and if nothing is left to learn.
    """
    weights = dict(model.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        matching = [weight for name, weight in weights.items() if fnmatchcase(name, pattern)]
        if not matching:
            beginnings = ", ".join(sorted({name.split(".")[0] for name in weights}))
            raise ConfigError(
                f"train.freeze: no weight is called '{pattern}'; their names begin with {beginnings}; "
                "write * for what follows, as in encoder.*"
            )
        for weight in matching:
            weight.requires_grad_(False)
    if not any(weight.requires_grad for weight in weights.values()):
        raise ConfigError(f"train.freeze: {', '.join(patterns)} match every weight, so nothing could be learnt")
