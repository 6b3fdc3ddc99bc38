"""`nmt inspect`: models, runs and wrong input."""

import json
from pathlib import Path

import pytest

from nmt.commands.inspect import as_text, inspect, parameters_by_part
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.config import load_recipe
from nmt.errors import ModelError
from nmt.model.checkpoint import load_model
from tests.builders import (
    run_command,
    save_model,
    tiny_loaded_model,
    tiny_model,
    write_reversal_task,
)
from tests.training.runs import CPU, QUIET


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save_model(directory, tiny_loaded_model())
    return directory


def test_model_is_described(model: Path) -> None:
    content = inspect(model)
    loaded = load_model(model, CPU)
    assert content["parameters"]["total"] == loaded.model.parameter_count()
    assert (
        sum(count for part, count in content["parameters"].items() if part != "total")
        == (content["parameters"]["total"])
    )
    assert content["languages"] == {"source": "en", "target": "it"}
    assert content["sizes"] == loaded.model.settings.model_dump(mode="json")
    assert content["tokenizer"]["source_pieces"] == len(loaded.tokenizers.source)
    assert content["training"] is None
    text = as_text(inspect(model))
    assert max(map(len, text.splitlines()[1:])) <= 80
    assert f"{loaded.model.parameter_count():,}" in text
    assert f"{loaded.model.settings.attention_score} attention" in text


@pytest.mark.parametrize("tied", ["all", "target", "none"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_parameters_of_the_parts_add_up(tied: str, norm: str) -> None:
    model = tiny_model(1, vocabulary=6, tied_embeddings=tied, norm=norm)
    parts = parameters_by_part(model)
    assert sum(parts.values()) == model.parameter_count()
    assert parts["embedding"] == 64 * 16 * (1 if tied == "all" else 2)
    assert parts["output"] == (64 * 16 if tied == "none" else 0)
    layers = sum(weight.numel() for weight in model.decoder.parameters())
    assert parts["decoder"] == layers + (2 * 16 if norm == "pre" else 0)


def test_run_has_its_training_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe(write_reversal_task(tmp_path))
    prepare(recipe, QUIET)
    train(recipe, QUIET)
    record = inspect(tmp_path / "run")["training"]
    manifest = json.loads((tmp_path / "prepared" / "manifest.json").read_text())
    assert (record["step"], record["pairs"]) == (12, manifest["train"]["kept"])
    assert record["validation"]["step"] in (4, 8, 12)
    assert f"{record['step']} steps in" in as_text(inspect(tmp_path / "run"))
    scores = [
        {"language": code, "name": "BLEU", "value": value, "signature": ""} for code, value in (("it", 30), ("zh", 20))
    ]
    (tmp_path / "run" / "test.json").write_text(json.dumps(scores))
    assert "test        it BLEU 30.00, zh BLEU 20.00" in as_text(inspect(tmp_path / "run"))
    # a checkpoint alone has no log and no text
    alone = inspect(tmp_path / "run" / "checkpoints" / "step-00000012")["training"]
    assert alone == {key: record[key] for key in ("step", "epoch", "target_tokens", "seconds")}


def test_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"neither a model directory .* nor a run with a checkpoint"):
        inspect(tmp_path)
    done = run_command("inspect", tmp_path / "missing")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no such directory" in done.stderr


def test_command_prints_text_or_json(model: Path) -> None:
    assert run_command("inspect", model).stdout.splitlines()[0].endswith("en → it")
    assert json.loads(run_command("inspect", model, "--json").stdout) == inspect(model)
