"""The compiler of Triton accepts all kernels, which the other tests run in its interpreter."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed: it comes with builds of torch for NVIDIA GPUs")

KERNELS = Path(__file__).parents[2] / "nmt" / "kernels"


@pytest.mark.slow
@pytest.mark.parametrize(("capability", "precision"), [("75", "fp32"), ("90", "bf16")], ids=["T4", "H200"])
def test_kernels_fit_into_shared_memory_and_registers(capability: str, precision: str, tmp_path: Path) -> None:
    """A T4 has the least shared memory of the GPUs that torch supports, and no bf16."""
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.compile_for_gpu", capability, precision]
    variables["TRITON_CACHE_DIR"] = str(tmp_path)
    result = subprocess.run(
        command, env=variables, cwd=KERNELS.parents[1], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    compiled = json.loads(result.stdout)
    sources = "".join(file.read_text(encoding="utf-8") for file in KERNELS.glob("triton_*.py"))
    # in fp32, heads of 64 numbers need blocks of fewer rows than that kernel takes
    missing = {"_gradients_kernel"} if precision == "fp32" else set()
    assert {name for name, _, _ in compiled} == set(
        re.findall(r"^def (_\w+_kernel)\(", sources, re.MULTILINE)
    ) - missing
    for name, shared, stack in compiled:
        assert shared <= 2**16, name
        assert stack <= 32, name  # which sine and cosine need
