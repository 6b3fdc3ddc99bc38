"""The model before its first update: random or pretrained weights, frozen weights, compiled layers."""

import os
import shutil
from fnmatch import fnmatchcase
from importlib.util import find_spec
from types import MethodType

import torch
from torch import nn

from nmt.config import Recipe
from nmt.config.section import SettingError
from nmt.model.attention import CrossAttention, SelfAttention
from nmt.model.checkpoint import WEIGHTS_FILE, load_weights, read_configuration
from nmt.model.transformer import Transformer
from nmt.system.device import seed_for
from nmt.text.tokenizer import Tokenizers


def initial_model(recipe: Recipe, tokenizers: Tokenizers, pretrained: bool = True) -> Transformer:
    """Return the model that a training starts with; `pretrained` loads the weights of `train.init_from`, if it is set.

    Raises ModelError for weights that are damaged or have other shapes, SettingError as `freeze` does.
    """
    vocabularies = len(tokenizers.source), len(tokenizers.target)
    initial = recipe.train.init_from if pretrained else None
    if initial is not None:
        read_configuration(initial)  # checks the digests of all files
    torch.manual_seed(seed_for("weights", recipe.seed))
    model = Transformer(recipe.model, *vocabularies)
    if initial is not None:
        load_weights(model, initial / WEIGHTS_FILE)
    freeze(model, recipe.train.freeze)
    return model


def check_freeze(recipe: Recipe) -> None:
    """Raise SettingError as `freeze` does, without allocating the model: names do not depend on the vocabulary."""
    if not recipe.train.freeze:
        return  # the first tensor on the device "meta" takes a second
    with torch.device("meta"):
        freeze(Transformer(recipe.model, 32, 32), recipe.train.freeze)


def freeze(model: nn.Module, patterns: tuple[str, ...]) -> None:
    """Exclude the weights whose names match a pattern from training; a tied matrix matches by each of its names.

    The norm after the last layer of a stack belongs to it: `encoder_norm.weight` also matches as `encoder.norm.weight`.
    Raises SettingError for a pattern without a match, and if every weight is frozen.
    """
    weights = dict(model.named_parameters(remove_duplicate=False))
    for pattern in patterns:
        matching = [
            weight
            for name, weight in weights.items()
            if any(fnmatchcase(each, pattern) for each in (name, name.replace("coder_norm.", "coder.norm.")))
        ]
        if not matching:
            beginnings = ", ".join(sorted({name.split(".")[0] for name in weights}))
            raise SettingError(
                "train.freeze",
                f"no weight matches '{pattern}'; names begin with {beginnings}; * matches anything, as in encoder.*",
            )
        for weight in matching:
            weight.requires_grad_(False)
    if not any(weight.requires_grad for weight in weights.values()):
        raise SettingError("train.freeze", f"{', '.join(patterns)} match every weight, so there is nothing to train")


def has_triton() -> bool:
    """Return whether torch can compile kernels for this GPU with Triton."""
    try:
        from torch.utils._triton import has_triton as has_working_triton
    except ImportError:  # a private module
        return find_spec("triton") is not None
    return has_working_triton()


def check_compiler(device: torch.device) -> None:
    """Raise SettingError if torch.compile cannot work on this machine."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise SettingError("runtime.compile", f"there is no C++ compiler {compiler}; install one, or set it to false")
    if device.type == "cuda" and not has_triton():
        raise SettingError("runtime.compile", "Triton does not work with this GPU; set it to false")


def compile_layers(model: Transformer, device: torch.device) -> None:
    """Compile the layers for training, in place; weights, names and decoding stay the same.

    Encoder layers share their code, and so do decoder layers: two layers are compiled, whatever the depth. Attention is
    excluded: its kernel is fused already, and it alone handles sentences and padding. All else works on (N, D) rows,
    where only N varies, so that no later batch triggers a recompilation. Raises SettingError as `check_compiler` does.
    """
    check_compiler(device)
    for attention in (SelfAttention, CrossAttention):
        # as methods of the instances: copies of a model get methods of their own
        eager = torch.compiler.disable(attention.forward)  # type: ignore[no-untyped-call]
        for module in model.modules():
            if isinstance(module, attention):
                module.forward = MethodType(eager, module)  # type: ignore[method-assign]
    for layer in (*model.encoder, *model.decoder):
        layer.compile(dynamic=True)
