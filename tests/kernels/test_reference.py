"""The one place that knows devices. What the plain kernels compute is tested with the model and its loss."""

import re
from pathlib import Path

ABOUT_DEVICES = re.compile(r"device\.type|is_cuda|has_native|is_native|by_row|prepacked|autocast|\bcuda\b")


def test_only_kernels_ask_which_device_computes(repository: Path) -> None:
    folders = [repository / "nmt" / name for name in ("model", "batching", "training", "decoding", "translation")]
    sources = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    assert len(sources) > 40
    found = [
        f"{path.relative_to(repository)}:{number}: {line.strip()}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if ABOUT_DEVICES.search(line)
    ]
    assert found == []
