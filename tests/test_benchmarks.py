"""Every program in benchmarks/ and docs/ runs to its last line, at its smallest size, on a few demonstration pairs."""

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import gpu
from nmt.decoding.results import Hypothesis
from nmt.kernels.constant_products import product
from tests.builders import TINY_SHAPE, write_lines, write_recipe, write_tsv

REPOSITORY = Path(__file__).resolve().parents[1]
TINY = " ".join(f"--set model.{key}={value}" for key, value in TINY_SHAPE.items())
PRECISIONS = "fp32 bf16" + " int8" * (product(np.ones((64, 64), np.float32), None, "int8") is not None)
SHAPE = {**TINY_SHAPE, "dim": 64, "feed_forward": 64}  # the least for int8
COMMANDS = {
    "benchmarks/curve.py": ("run", r"\| \d\.\d min \| 4 \|.*\n\ntest BLEU \*\*\d.*\n\ntest chrF2 \*\*\d.*\n\n"),
    "benchmarks/decoding_speed.py": (
        f"run test.en --reference test.it --rounds 1 --threads 2 --beam 1 2 --precision {PRECISIONS} "
        "--set decode.batch_tokens=512 --set decode.max_length.factor=0.5",
        r"(\| test.en \| [12] \| (nmt|CTranslate2) .* \d+\.\d\d \|\n){8,10}{.*}\n",
    ),
    "benchmarks/gpu.py": ("--help", r"(.*\n)+"),  # run with fewer variants below
    "benchmarks/pair_rules.py": ("train.tsv en it --held-out test.tsv", r"(.* µs\n){8,}"),
    "benchmarks/prepare_size.py": (
        "size train.tsv.gz --pairs 900 --processes 1 --vocabulary 350",
        r'{"pairs": 900, .*}\n',
    ),
    "benchmarks/required_phrases.py": ("run items.tsv", r"2 lines, 1 with (.*\n)+\| true \| 100.0% .*\n"),
    "benchmarks/serving.py": (
        "run test.en --requests 12 --clients 1 3",
        r"(\| (nmt|nmt, single requests|CTranslate2) \| [13] \| .* ms \|\n){6}\| Translator, no server .*\n{.*}\n",
    ),
    "benchmarks/techniques.py": (
        "plan.yaml techniques",
        r"(\| recipe \| 2 .* \+0\.00 \|\n\| no dropout \| 2 .* \|\n){\"recipe\": .*}\n",
    ),
    "benchmarks/training_speed.py": (
        "train.en train.it --updates 8 --rounds 1 --batch-tokens 256 --peer 'other=cat peer.json' "
        f"--set tokenizer.vocab_size=350 {TINY}",
        r"\| nmt \|.* 1\.00× \|\n\| other \|.*\n\nnmt: \d.*\n{.*}\n",
    ),
    # with Marian, which is no dependency: the comparison is in RESULTS.md
    "benchmarks/marian_import.py": ("--help", r"(.*\n)+"),
    "docs/generate_code.py": ("", ""),
    "docs/generate_reference.py": ("", re.escape((REPOSITORY / "docs" / "recipe.md").read_text(encoding="utf-8"))),
}
"""The arguments of each program, and the end of what it prints."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, warm_python: str) -> Path:
    """Texts of a few demonstration pairs, and a model that was trained on them."""
    folder = tmp_path_factory.mktemp("benchmarks")
    for part, count in (("train", 300), ("valid", 10), ("test", 10)):
        lines = (REPOSITORY / "data" / "demo" / f"{part}.tsv").read_text(encoding="utf-8").splitlines()[:count]
        pairs = [tuple(line.split("\t")[:2]) for line in lines]
        write_tsv(folder / f"{part}.tsv", pairs)
        for language, texts in zip(("en", "it"), zip(*pairs, strict=True), strict=True):
            write_lines(folder / f"{part}.{language}", *texts)
    (folder / "train.tsv.gz").write_bytes(gzip.compress((folder / "train.tsv").read_bytes()))
    write_tsv(folder / "items.tsv", [("Open {name}.", "Apri {name}."), ("Where is Anna?", "Dov'è Anna?")])
    plan = {"recipe": "recipe.yaml", "seeds": [1, 2], "techniques": {"recipe": {}, "no dropout": {"model.dropout": 0}}}
    write_lines(folder / "plan.yaml", json.dumps(plan))
    write_lines(folder / "peer.json", '{"target_tokens_per_s": 1e9}')
    write_recipe(
        folder,
        data={"train": [{"file": "train.tsv"}], "valid": {"file": "valid.tsv"}, "test": {"file": "test.tsv"}},
        tokenizer={"vocab_size": 350},
        model=SHAPE,
        train={"batch_tokens": 256, "stop": {"steps": 4}, "validate_every": 2, "log_every": 3},
    )
    subprocess.run([warm_python, "-m", "nmt", "train", "-c", "recipe.yaml", "--quiet"], cwd=folder, check=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    sorted(
        str(path.relative_to(REPOSITORY))
        for name in ("benchmarks", "docs")
        for path in (REPOSITORY / name).glob("*.py")
        # run with two executors in tests/text/preparing/test_preparation.py, and in tests/test_readme.py
        if path.name not in ("prepare_on_cluster.py", "transformer.py")
    ),
)
def test_program_runs_to_its_last_line(program: str, folder: Path, warm_programs: Path) -> None:
    if program in ("benchmarks/decoding_speed.py", "benchmarks/serving.py"):
        pytest.importorskip("ctranslate2", reason="compares with CTranslate2: pip install ctranslate2")
    assert program in COMMANDS, "a new program: name the arguments of its smallest run"
    arguments, expected = COMMANDS[program]
    python = str(warm_programs / "python")
    # as `python PROGRAM ARGUMENTS`, also for the commands of nmt that the program starts
    code = (
        "import runpy, sys; sys.executable, *sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [python, "-c", code, python, str(REPOSITORY / program), *shlex.split(arguments)],
        cwd=folder,
        env={**os.environ, "PATH": f"{warm_programs}:{os.environ['PATH']}", "PYTHONPATH": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(rf"(?:{expected})\Z", done.stdout), done.stdout


@pytest.mark.slow
def test_gpu_program_on_a_cpu_measures_everything_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpu, "VARIANTS", gpu.VARIANTS[:2])
    monkeypatch.setattr(gpu, "matrix_rate", lambda *_: 1e12)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--tiny"])
    assert gpu.main() == 0
    *table, summary = capsys.readouterr().out.splitlines()
    values = json.loads(summary)
    assert len(table) == len(values)
    assert not any(line.endswith("FAILED") for line in table)
    assert sum(line.endswith(" ok") for line in table) == 3 * len(gpu.VARIANTS) + 4
    assert values["resumed training: largest difference of a weight"] == 0
    assert values["tiny, 600 tokens: target tokens/s"] > 0
    assert values["tatoeba-en-it.yaml: target tokens/s, median"] > 0
    assert values["beam 4, batches of 2,048 tokens: target tokens/s"] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "rate"), [("NVIDIA H200", 989e12), ("NVIDIA H100 PCIe", 756e12), ("NVIDIA L4", 121e12), ("Tesla T4", None)]
)
def test_nominal_rate_is_that_of_the_data_sheet(monkeypatch: pytest.MonkeyPatch, name: str, rate: float | None) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert gpu.nominal_rate(torch.device("cuda")) == rate


def test_a_failed_check_is_shown_and_ends_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--tiny"])
    monkeypatch.setattr(gpu, "VARIANTS", [{}])
    monkeypatch.setattr(gpu, "LARGEST_DIFFERENCE", {"fp32": 0.0})
    outputs = iter(range(100))
    monkeypatch.setattr(
        gpu, "search", lambda models, sentences, *_: [[Hypothesis([next(outputs)], 0.0)]] * len(sentences)
    )
    for name in ("machine", "recordings", "resuming", "out_of_memory", "updates", "searches", "training"):
        monkeypatch.setattr(gpu, name, lambda setup: [])
    assert gpu.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[:2]] == ["FAILED", "FAILED"]
