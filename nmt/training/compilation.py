"""Compiling a model's layers, so that what stands between two products runs as one kernel."""

import os
import shutil
from functools import cache

import torch
from torch.utils._triton import has_triton

from nmt.errors import ConfigError
from nmt.model.attention import MultiHeadAttention
from nmt.model.transformer import Transformer


def compile_layers(model: Transformer, device: torch.device) -> None:
    """Let torch compile the layers as training runs them, in place; weights, names and decoding stay as they are.

    Encoder layers share their code, and so do decoder layers: however deep the model, two layers are compiled.
    Attention stays out, since its kernel is a fused one already. It alone knows sentences and padding: the rest sees
    (N, D) rows, whose number is all that varies, so that no later batch makes torch compile again.
    Raises ConfigError if this machine has no compiler.
    """
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise ConfigError(f"runtime.compile: there is no C++ compiler {compiler}; install one, or set it to false")
    if device.type == "cuda" and not has_triton():
        raise ConfigError("runtime.compile: Triton does not work with this GPU; set it to false")
    _leave_attention_alone()
    for layer in (*model.encoder, *model.decoder):
        layer.compile(dynamic=True)


@cache
def _leave_attention_alone() -> None:
    """Mark attention, for this process; a decorator would load the compiler, a second, into all who only translate."""
    for name in ("self_attend", "cross_attend"):
        single_process = torch.compiler.disable(getattr(MultiHeadAttention, name))  # type: ignore[no-untyped-call]
        setattr(MultiHeadAttention, name, single_process)
