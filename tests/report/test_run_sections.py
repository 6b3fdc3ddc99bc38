"""What differs from the defaults and between runs, and the command that repeats a run."""

import re
import shlex
import shutil
from html import unescape
from pathlib import Path

import pytest

from nmt.config import load_recipe
from nmt.report.run_records import Row, RunRecords
from nmt.report.run_sections import changed_settings, run_lead, runs_html, settings_html
from tests.builders import run_command
from tests.report.run_files import train_line, write_run


def test_changed_settings_are_those_of_the_recipe_as_it_was_written(repository: Path) -> None:
    changes = {
        one.key: (one.before, one.now)
        for one in changed_settings(load_recipe(repository / "recipes" / "demo-en-it.yaml"))
    }
    assert changes["model.dim"] == (512, 128)
    assert changes["train.schedule.name"] == ("noam", "wsd")
    assert changes["train.schedule.rate"] == (0.001, 0.004)
    assert changes["languages.target"] == (None, "it")
    written = {
        "languages.source", "languages.target", "data.train.0.file", "data.train.0.columns", "data.valid.0.file",
        "data.valid.0.columns", "data.test.0.file", "data.test.0.columns", "tokenizer.vocab_size", "tokenizer.type",
        "model.encoder_layers",
        "model.decoder_layers", "model.dim", "model.feed_forward", "model.heads", "model.dropout", "train.batch_tokens",
        "train.label_smoothing",
        "train.schedule.name", "train.schedule.rate", "train.schedule.warmup", "train.schedule.decay",
        "train.stop.steps", "train.validate_every", "train.log_every", "decode.beam", "run",
    }  # fmt: skip
    assert set(changes) == written


def test_shown_command_trains_the_run_again(
    uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # in which the command makes the link runs/latest
    copy = tmp_path / "my run's"
    shutil.copytree(uninterrupted, copy, symlinks=True)
    html = settings_html(RunRecords(copy))
    assert re.search(r"<td>torch</td><td>\d+\.\d+", html)
    (command,) = re.findall(r"^(nmt train[^<]*)</pre>", html, re.MULTILINE)
    words = shlex.split(unescape(command))
    result = run_command(*words[1:], "--quiet")
    assert result.exit_code == 0, result.output
    assert RunRecords(tmp_path / "my run's-again").train[-1]["loss"] == RunRecords(uninterrupted).train[-1]["loss"]


def test_lead_is_a_sentence_on_the_run_and_its_state(tmp_path: Path) -> None:
    run = RunRecords(write_run(tmp_path / "<b>", [train_line(60, 3.0)]))
    lead = " ".join(run_lead(run).split())
    model, file = run.recipe.model, run.recipe.data.train[0].file
    assert file is not None
    assert lead.startswith(
        f'<p class="lead">&lt;b&gt;: a Transformer of {model.encoder_layers} + {model.decoder_layers} layers of width '
        f"{model.dim}, trained on {file.name} for 60 steps in 1.0 minutes on an unknown device, "
    )
    assert lead.endswith(". It was interrupted: nmt train resumes it.</p>")


def row_of(name: str, epochs: float, rate: float) -> Row:
    settings = {"train.schedule.rate": rate, "seed": 1}
    places = {"path": name, "remark": "", "settings": settings, "valid": {}, "test": {}}
    counts = dict.fromkeys(("parameters", "steps", "tokens", "minutes", "device"))
    return {"name": name, "epochs": epochs, "pairs": 1000, "pairs_per_epoch": 1000, **places, **counts}


def test_runs_have_the_settings_that_differ_and_who_has_seen_more_text() -> None:
    html = runs_html([row_of("A", 1.0, 0.1), row_of("B", 2.5, 0.2), row_of("C", 1.02, 0.1)])
    assert "<td>train.schedule.rate</td>" in html
    assert "<td>seed</td>" not in html
    assert re.findall("<li>(.*?)</li>", html) == [
        "B has seen 2.5 times the text of A (2,500 sentence pairs against 1,000, repetitions included): a better score "
        "may be due to that."
    ]
    assert "None: the recipes are equal." in runs_html([row_of("A", 1, 0.1), row_of("B", 1, 0.1)])
