"""The model before its first update: random or pretrained weights, frozen weights."""

from fnmatch import fnmatchcase

import torch
from torch import nn

from nmt.config import Recipe
from nmt.config.section import SettingError
from nmt.model.checkpoint import WEIGHTS_FILE, load_weights
from nmt.model.transformer import Transformer
from nmt.system.device import seed_for
from nmt.text.tokenizer import Tokenizers


def initial_model(recipe: Recipe, tokenizers: Tokenizers, pretrained: bool = True) -> Transformer:
    """Return the model that a training starts with; `pretrained` loads the weights of `train.init_from`, if it is set.

    Raises ModelError for weights that are damaged or have other shapes, SettingError as `freeze` does.
    """
    vocabularies = len(tokenizers.source), len(tokenizers.target)
    initial = recipe.train.init_from if pretrained else None
    torch.manual_seed(seed_for("weights", recipe.seed))
    model = Transformer(recipe.model, *vocabularies)
    if initial is not None:
        load_weights(model, initial / WEIGHTS_FILE)
    freeze(model, recipe.train.freeze)
    return model


def check_freeze(recipe: Recipe) -> None:
    """Raise SettingError as `freeze` does, without allocating the model: names do not depend on the vocabulary."""
    if recipe.train.freeze:  # the first tensor on the device "meta" takes a second
        with torch.device("meta"):
            freeze(Transformer(recipe.model, 32, 32), recipe.train.freeze)


def freeze(model: nn.Module, patterns: tuple[str, ...]) -> None:
    """Exclude the weights whose names match a pattern from training; a tied matrix matches by each of its names.

    The norm after the last layer of a stack belongs to it: `encoder_norm.weight` also matches as `encoder.norm.weight`.
    Raises SettingError for a pattern without a match, and if every weight is frozen.
    """
    named = model.named_parameters(remove_duplicate=False)
    weights = {(name, name.replace("coder_norm.", "coder.norm.")): weight for name, weight in named}
    for pattern in patterns:
        matching = [weight for names, weight in weights.items() if any(fnmatchcase(name, pattern) for name in names)]
        if not matching:
            starts = ", ".join(sorted({name.split(".")[0] for name, _ in weights}))
            message = f"no weight matches '{pattern}'; names begin with {starts}; * matches anything, as in encoder.*"
            raise SettingError("train.freeze", message)
        for weight in matching:
            weight.requires_grad_(False)
    if not any(weight.requires_grad for weight in weights.values()):
        raise SettingError("train.freeze", f"{', '.join(patterns)} match every weight, so there is nothing to train")
