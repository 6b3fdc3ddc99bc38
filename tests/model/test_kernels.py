"""The choice of kernels, and plain torch as the fallback for operators that a build of torch lacks."""

import os
import subprocess
import sys

import pytest
import torch

from nmt.config import ModelSettings
from nmt.model.cpu import CPUKernels
from nmt.model.kernels import PlainKernels, Precision, choose_kernels
from nmt.model.transformer import Transformer

PACKED: tuple[tuple[Precision, str], ...] = (("fp32", "has_packed"), ("int8", "has_eight_bits"))
# the operators of torch.ops without which a flag of CPUKernels is False
OPERATORS = [
    ("mkldnn", "_linear_pointwise", {"has_linear", "has_packed", "has_bf16"}),
    ("mkldnn", "_reorder_linear_weight", {"has_packed"}),
    ("onednn", "qlinear_prepack", {"has_eight_bits"}),
    ("onednn", "qlinear_pointwise", {"has_eight_bits"}),
]


class Operators:
    """The operators of a namespace of torch.ops, without one."""

    def __init__(self, namespace: object, missing: str) -> None:
        self._namespace, self._missing = namespace, missing

    def __getattr__(self, name: str) -> object:
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._namespace, name)


def flags(kernels: CPUKernels) -> dict[str, bool]:
    return {name: value for name, value in vars(kernels).items() if name.startswith("has_")}


@pytest.mark.parametrize(("value", "expected"), [("off", PlainKernels), ("on", CPUKernels)])
def test_environment_variable_selects_plain_torch(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: type[PlainKernels]
) -> None:
    monkeypatch.setenv("NMT_CPU_KERNELS", value)
    assert type(choose_kernels()) is expected


def test_everything_is_imported_without_the_folder_of_cpu_kernels_if_plain_torch_is_selected() -> None:
    program = "import sys; sys.modules['nmt.model.cpu'] = None; import nmt.commands.train, nmt.commands.translate"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "NMT_CPU_KERNELS": "off"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("namespace", "operator", "lost"), OPERATORS)
def test_missing_operator_is_replaced_by_plain_torch(
    monkeypatch: pytest.MonkeyPatch, namespace: str, operator: str, lost: set[str]
) -> None:
    before = flags(CPUKernels())
    monkeypatch.setattr(torch.ops, namespace, Operators(getattr(torch.ops, namespace), operator))
    kernels = CPUKernels()
    assert flags(kernels) == {name: value and name not in lost for name, value in before.items()}
    x, weight, bias = torch.randn(40, 24), torch.randn(36, 24, requires_grad=True), torch.randn(36)
    torch.testing.assert_close(kernels.linear(x, weight, bias), PlainKernels().linear(x, weight, bias))
    kernels.linear(x, weight, bias).sum().backward()
    left = torch.randn(40, 36)
    torch.testing.assert_close(kernels.outer_product(left, x), left.t() @ x, rtol=1e-5, atol=1e-4)
    for precision, flag in PACKED:
        product = kernels.prepack(weight.detach(), bias, precision)
        assert (product is not None) == flags(kernels)[flag]
        if product is not None:
            with torch.no_grad():
                expected = kernels.linear(x, weight, bias)
            torch.testing.assert_close(product(x), expected, rtol=0, atol=0.3 if precision == "int8" else 1e-4)


def test_missing_processor_test_disables_eight_bits_only(monkeypatch: pytest.MonkeyPatch) -> None:
    before = flags(CPUKernels())
    monkeypatch.delattr(torch.cpu, "_is_vnni_supported")
    assert flags(CPUKernels()) == {**before, "has_eight_bits": False}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_model_without_prepacked_kernels_is_unchanged(monkeypatch: pytest.MonkeyPatch, precision: Precision) -> None:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "dim": 8, "heads": 2, "feed_forward": 8}
    model = Transformer(ModelSettings.model_validate(shape), 11, 11).eval()
    for module in ("kernels", "attention", "transformer"):
        monkeypatch.setattr(f"nmt.model.{module}.kernels", PlainKernels())
    assert not model.prepack(precision)
    assert not model.prepacked
    assert all(getattr(module, "prepacked", None) in (None, False) for module in model.modules())
