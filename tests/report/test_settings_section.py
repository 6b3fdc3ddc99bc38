"""The section Settings: what differs from the defaults, and the command that repeats the run."""

import re
import shlex
import shutil
from html import unescape
from pathlib import Path

import pytest

from nmt.config import load_recipe
from nmt.report.run_records import RunRecords
from nmt.report.settings_section import changed_settings, settings_section
from tests.builders import run_command


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
    html = settings_section(RunRecords(copy)).html
    assert re.search(r"<td>torch</td><td>\d+\.\d+", html)
    (command,) = re.findall(r"^(nmt train[^<]*)</pre>", html, re.MULTILINE)
    words = shlex.split(unescape(command))
    result = run_command(*words[1:], "--quiet")
    assert result.exit_code == 0, result.output
    assert RunRecords(tmp_path / "my run's-again").train[-1]["loss"] == RunRecords(uninterrupted).train[-1]["loss"]
