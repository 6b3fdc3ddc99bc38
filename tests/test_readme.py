"""Every command, recipe and Python example of the README works as it stands."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.config import load_recipe

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
# without the test text, for models that have learnt next to nothing write without end
QUICKLY = "--set train.stop.steps=3 --set train.validate_every=3 --set data.test=null"
RUN_BY_CI = {"make test", "make check"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def shell_lines() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a reader has, with the environment that `make setup` would build."""
    folder = tmp_path / "nmt"
    kept = ("nmt", "recipes", "data/demo", "Makefile", "pyproject.toml", "constraints.txt", "README.md")
    for name in kept:
        source, target = REPOSITORY / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def run(command: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment.pop("NMT_MODEL", None)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def quickly(line: str) -> str:
    """Return a command of the page as one that takes seconds: few steps, few processes, and one machine as two."""
    line = line.replace("--nproc-per-node 8", "--nproc-per-node 2")
    if "nmt train" not in line:
        return line
    line = f"{line} {QUICKLY}"
    if "--nnodes 2" not in line:
        return line
    line = line.replace("--nproc-per-node 2", "--nproc-per-node 1").replace("first-machine", "localhost")
    return f"{line} & {line}; wait $!"


def test_the_recipe_shown_is_the_recipe_shipped(tmp_path: Path) -> None:
    (shown,) = blocks("yaml")
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "shown.yaml").write_text(shown, encoding="utf-8")
    (folder / "shipped.yaml").write_text(
        (REPOSITORY / "recipes" / "demo-en-it.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    assert load_recipe(folder / "shown.yaml") == load_recipe(folder / "shipped.yaml")


def test_every_file_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"(?:recipes|data|benchmarks|nmt)/[\w./-]+\.\w+|\w[\w-]*\.(?:yaml|md)\b", README))
    assert "recipes/recipe.schema.json" in named
    missing = [
        name
        for name in sorted(named - {"recipe.yaml", "recipes/mine.yaml"})
        if not (REPOSITORY / name).exists() and not (REPOSITORY / "recipes" / name).exists()
    ]
    assert missing == []


@pytest.mark.slow
def test_shell_and_python_examples_run_in_the_order_of_the_page(checkout: Path) -> None:
    for line in shell_lines():
        if line in RUN_BY_CI or line == "make demo" or line.startswith(". "):
            continue
        run(quickly(line), checkout)
    (example,) = blocks("python")
    assert len(run(f"{shlex.quote(sys.executable)} -c {shlex.quote(example)}", checkout).splitlines()) == 2
    assert len((checkout / "test.out").read_bytes().split(b"\n")) == len(
        (checkout / "test.en").read_bytes().split(b"\n")
    )


@pytest.mark.slow
def test_make_demo_reaches_what_it_promises(checkout: Path) -> None:
    """BLEU of 60 or more on held-out sentences, in both directions, as `nmt score` prints it."""
    printed = run("touch .venv/.ready; make demo", checkout)
    scores = [float(value) for value in re.findall(r"^BLEU +([\d.]+)", printed, flags=re.MULTILINE)]
    assert len(scores) == 2
    assert min(scores) >= 60, scores
    assert "tok:zh" in printed
    assert "tok:13a" in printed
