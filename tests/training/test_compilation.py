"""Compiled layers equal eager layers for batches of all shapes and are compiled once."""

import copy
import importlib.util
import shutil
import sys

import pytest
import torch

from nmt.config import ModelSettings
from nmt.errors import ConfigError
from nmt.model.attention import MultiHeadAttention
from nmt.model.transformer import Transformer
from nmt.training import initialization
from nmt.training.initialization import compile_layers

CPU = torch.device("cpu")


def build() -> Transformer:
    torch.manual_seed(1)
    shape = {"encoder_layers": 2, "decoder_layers": 2, "dim": 16, "heads": 2, "feed_forward": 32, "dropout": 0.25}
    return Transformer(ModelSettings.model_validate(shape), 30, 30).train()


def batch(seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor | None], list[torch.Tensor]]:
    """Return groups of any number, size and length, some padded; at least 16 tokens: torch has other code for fewer."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    sources, masks, targets = [], [], []
    for _ in range(draw(1, 5)):
        sentences, source_length, target_length = draw(8, 17), draw(3, 15), draw(3, 15)
        sources.append(torch.randint(4, 30, (sentences, source_length), generator=generator))
        targets.append(torch.randint(4, 30, (sentences, target_length), generator=generator))
        lengths = torch.randint(1, source_length + 1, (sentences, 1), generator=generator)
        masks.append(None if draw(0, 3) == 0 else torch.arange(source_length) < lengths)
    return sources, masks, targets


@pytest.mark.usefixtures("fresh_compilation")
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for a CPU needs g++")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:The .grad attribute of a Tensor:UserWarning"
)  # torch's
def test_compiled_equals_eager_for_batches_of_all_shapes_and_is_compiled_once() -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    eager, compiled = build(), build()
    compile_layers(compiled, CPU)
    graphs = []
    for seed in range(15):
        losses = []
        for model in (eager, compiled):
            torch.manual_seed(seed)  # the same dropout
            losses.append(model(*batch(seed)).pow(2).sum())
            losses[-1].backward()
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=0)
        for (name, ours), theirs in zip(compiled.named_parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-3, msg=lambda m, n=name: f"{n}: {m}")
        eager.zero_grad()
        compiled.zero_grad()
        graphs.append(counters["stats"]["unique_graphs"])
    assert 0 < graphs[0] == graphs[-1] <= 12
    copied = copy.deepcopy(compiled)  # as in a validation
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert not copied(*batch(0)).any()


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for a CPU needs g++")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's
def test_compiling_a_model_does_not_compile_others() -> None:
    methods = dict(vars(MultiHeadAttention))
    compile_layers(build(), CPU)
    assert dict(vars(MultiHeadAttention)) == methods
    other = build()
    assert "self_attend" not in vars(other.encoder[0].attention)


def test_machine_without_a_compiler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(
        ConfigError, match=r"runtime\.compile: there is no C\+\+ compiler no-such-compiler; install one"
    ):
        compile_layers(build(), CPU)


@pytest.mark.parametrize("installed", [True, False])
def test_triton_is_looked_for_if_torch_has_no_test_of_it(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils._triton", None)
    spec = importlib.util.find_spec("pytest") if installed else None
    monkeypatch.setattr(initialization, "find_spec", {"triton": spec}.get)
    assert initialization.has_triton() == installed
