"""The distribution: its metadata, a wheel that works without the checkout, and commands that start without torch."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import typer

from nmt import __version__

TORCH_FREE = "errors config system.console system.files text.corpus text.preparing"
TORCH_FREE += " text.readers.opening text.normalize text.prepared text.tokenizer evaluation.metrics"
TORCH_FREE += " commands.init commands.prepare commands.score cli"


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NMT_"))}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_modules_for_prepare_and_score_do_not_import_torch(repository: Path) -> None:
    modules = ", ".join(f"nmt.{name}" for name in TORCH_FREE.split())
    program = f"import sys, {modules}; print('torch' in sys.modules)"
    assert run(sys.executable, "-c", program, cwd=repository).stdout.strip() == "False"


def test_constraints_pin_every_dependency(repository: Path) -> None:
    def name(requirement: str) -> str:
        return requirement.partition(">")[0].partition("=")[0].lower().replace("_", "-")

    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (repository / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(line.count("==") == 1 and "+" not in line for line in pins)
    required = {name(line) for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]}
    assert required <= {name(line) for line in pins}


def test_distribution_has_its_own_name_and_messages_install_from_the_checkout(repository: Path) -> None:
    """On the public index, `nmt` is another project."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "nmt-toolkit"
    assert set(project["scripts"]) == {"nmt"}
    assert set(project["optional-dependencies"]) == {
        "tensorboard",
        "report",
        "ct2",
        "hf",
        "filters",
        "documents",
        "serve",
        "dev",
    }
    pages = [repository / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for file in [*pages, *(repository / "docs").glob("*.md"), *(repository / "nmt").rglob("*.py")]:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"nmt\[(ct2|documents|hf|report|serve|tensorboard)|pip install '?nmt\b", text), file


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel from a copy, so that nothing is written into the repository."""
    pytest.importorskip("setuptools", reason="building needs setuptools: make setup")
    copy = tmp_path_factory.mktemp("repository")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, copy)
    for folder in ("nmt", "tests", "recipes"):
        shutil.copytree(repository / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", copy / "dist", cwd=copy)
    (built,) = (copy / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of a new environment with the wheel and the libraries of this environment."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place / "venv", with_pip=False)
    python = place / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=place)
    shown = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place)
    # a plain path: an editable install of this repository in this environment is not followed
    Path(shown.stdout.strip(), "libraries.pth").write_text(f"{Path(typer.__file__).parents[1]}\n")
    return python.parent


@pytest.mark.slow
def test_wheel_contains_only_the_package(wheel: Path, repository: Path) -> None:
    assert wheel.name == f"nmt_toolkit-{__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"nmt", f"nmt_toolkit-{__version__}.dist-info"}
    package = (path for path in (repository / "nmt").rglob("*") if path.is_file() and path.suffix != ".pyc")
    files = {str(path.relative_to(repository)) for path in package}
    assert {name for name in names if name.startswith("nmt/")} == files
    assert {"nmt/py.typed", "nmt/report/templates/page.css"} <= files


@pytest.mark.slow
def test_installed_commands_work_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import nmt; print(nmt.__file__)", cwd=tmp_path).stdout.strip()
    assert Path(where).is_relative_to(installed.parent)
    shown = run(installed / "nmt", "--help", cwd=tmp_path).stdout
    for command in ("prepare", "train", "translate", "score"):
        assert command in shown
    assert run(installed / "nmt", "--version", cwd=tmp_path).stdout.strip() == __version__


@pytest.mark.slow
def test_installed_score_works_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "hyp").write_text("a b c d e\n")
    (tmp_path / "ref").write_text("a b c d f\n")
    done = run(installed / "nmt", "score", "hyp", "ref", "--target-lang", "it", "--json", cwd=tmp_path)
    # 4/5 words, 3/4 pairs, 2/3 triples and 1/2 fours are right
    assert json.loads(done.stdout)["scores"][0]["value"] == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert done.stderr == ""
