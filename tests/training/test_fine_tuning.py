"""Fine-tuning: training from an initial model, and frozen weights."""

import os
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from nmt.commands.train import train
from nmt.config import Recipe, load_recipe
from nmt.errors import ConfigError
from nmt.model.stored import description_of
from nmt.model.transformer import Transformer
from nmt.text.manifest import Manifest
from nmt.training.optimizer import freeze
from tests.builders import reversal_pairs, save_model, tiny_loaded_model, tiny_model, write_tsv
from tests.training.runs import QUIET


def frozen(model: Transformer) -> set[str]:
    return {name for name, weight in model.named_parameters() if not weight.requires_grad}


def test_patterns_freeze_weights_by_name() -> None:
    model = tiny_model(1, tied_embeddings="all")
    freeze(model, ("encoder.*", "decoder_norm.bias"))
    expected = {name for name in dict(model.named_parameters()) if name.startswith(("encoder.", "encoder_norm."))}
    assert len(expected) > 10
    assert frozen(model) == {*expected, "decoder_norm.bias"}
    for pattern in ("source_embedding.*", "output.weight"):  # a tied matrix, by each of its names
        model = tiny_model(1, tied_embeddings="all")
        freeze(model, (pattern,))
        assert not model.output.weight.requires_grad


def test_patterns_that_match_nothing_or_everything_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        freeze(tiny_model(1, tied_embeddings="all"), ("encoder.*", "encodr.*"))
    assert str(caught.value) == (
        "train.freeze: no weight matches 'encodr.*'; names begin with decoder, decoder_norm, encoder, "
        "encoder_norm, output, source_embedding, target_embedding; * matches anything, as in encoder.*"
    )
    with pytest.raises(ConfigError, match=r"train.freeze: \*coder\*, \*embedding\* match every weight, so there"):
        freeze(tiny_model(1, tied_embeddings="all"), ("*coder*", "*embedding*"))


def fine_tuning(texts: Path, tmp_path: Path, start: Path, *overrides: str) -> Recipe:
    """Return a recipe without sections `model` and `tokenizer` that starts from another run."""
    write_tsv(tmp_path / "other.tsv", reversal_pairs(120, 7))
    content = yaml.safe_load((texts / "recipe.yaml").read_text())
    del content["model"], content["tokenizer"], content["prepared"]
    content["data"] = {"train": [{"file": "other.tsv"}], "valid": {"file": str(texts / "valid.tsv")}}
    content["train"]["init_from"] = str(start)
    content["run"] = "tuned"
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(content))
    return load_recipe(tmp_path / "recipe.yaml", list(overrides))


def test_init_from_starts_with_weights_and_tokenizer_and_frozen_weights_do_not_change(
    uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    overrides = ("train.freeze=['encoder*', '*embedding*']", "train.schedule.rate=1e-7")
    chosen = fine_tuning(texts, tmp_path, uninterrupted, *overrides)
    assert chosen.model == load_recipe(uninterrupted / "recipe.yaml").model
    train(chosen, QUIET)
    start, found = (load_file(run / "model.safetensors") for run in (uninterrupted / "best", chosen.run / "last"))
    for name, weight in start.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-5)
        assert torch.equal(found[name], weight) == (name.startswith("encoder") or "embedding" in name), name
    tokenizers = [(run / "tokenizer.model").read_bytes() for run in (uninterrupted / "best", chosen.run / "last")]
    assert tokenizers[0] == tokenizers[1]
    assert not any("encoder" in name for name in load_file(chosen.run / "last" / "optimizer.safetensors"))


@pytest.mark.parametrize("base", ["gone", "empty", "damaged", "another model", "trained further"])
def test_fine_tuned_run_does_not_need_its_initial_model(
    uninterrupted: Path, texts: Path, tmp_path: Path, base: str
) -> None:
    start = shutil.copytree(uninterrupted / "best", tmp_path / "base" / "last")
    chosen = fine_tuning(texts, tmp_path, start.parent, "train.stop.steps=2")
    train(chosen, QUIET)
    if base == "trained further":  # the same command continues
        start.rename(start.with_name("best"))
        chosen = fine_tuning(texts, tmp_path, start.parent, "train.stop.steps=4")
    else:
        shutil.rmtree(start)
        if base == "empty":
            start.mkdir()
        elif base == "damaged":
            save_model(start, tiny_loaded_model())
            (start / "config.json").write_text("{")
        elif base == "another model":
            save_model(start, tiny_loaded_model(dim=8))
        chosen = load_recipe(chosen.run / "recipe.yaml", ["train.stop.steps=4"])
    os.utime(tmp_path / "other.tsv")  # as if it was copied again: the corpus is prepared with the run's own tokenizer
    train(chosen, QUIET)
    assert (chosen.run / "last").resolve().name == "step-00000004"


def test_command_of_a_run_whose_initial_model_is_gone_names_the_one_that_resumes_it(
    uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    start = shutil.copytree(uninterrupted / "best", tmp_path / "base")
    run = fine_tuning(texts, tmp_path, start, "train.stop.steps=2").run
    run.mkdir()
    (run / "recipe.yaml").touch()
    shutil.rmtree(start)
    with pytest.raises(
        ConfigError, match=rf"no model here; .*; a run .* resumes without it: --config {run}/recipe\.yaml"
    ):
        fine_tuning(texts, tmp_path, start)


def test_fine_tuning_on_short_texts_keeps_the_limits_of_the_initial_model(
    uninterrupted: Path, texts: Path, tmp_path: Path
) -> None:
    """Otherwise, longer sentences are split and their translations cut, which the model translated before."""
    chosen = fine_tuning(texts, tmp_path, uninterrupted, "train.stop.steps=2")
    write_tsv(tmp_path / "other.tsv", [(pair[0][:3], pair[1][:3]) for pair in reversal_pairs(300, 7)])
    before = description_of(uninterrupted / "best")
    for steps in (2, 4):
        train(load_recipe(tmp_path / "recipe.yaml", [f"train.stop.steps={steps}"]), QUIET)
        after, measured = description_of(chosen.run / "last"), Manifest.read(chosen.prepared_directory)
        assert after.longest_source == before.longest_source > measured.longest_source
        assert before.decode.max_length is not None
        assert after.decode.max_length is not None
        assert after.decode.max_length.factor == max(before.decode.max_length.factor, measured.max_length.factor)
        assert after.decode.max_length.extra == max(before.decode.max_length.extra, measured.max_length.extra)


def test_init_from_with_another_shape_is_refused(uninterrupted: Path, texts: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        fine_tuning(texts, tmp_path, uninterrupted, "model={dim: 32, heads: 2, norm: post, dropout: 0.5}")
    start = uninterrupted / "best"
    assert str(caught.value).split("\n") == [
        f"--set model={{dim: 32, heads: 2, norm: post, dropout: 0.5}}: model.dim: found 32, but the model of "
        f"train.init_from has 16; leave it out: it comes with {start}",
        f"--set model={{dim: 32, heads: 2, norm: post, dropout: 0.5}}: model.norm: found post, but the model of "
        f"train.init_from has pre; leave it out: it comes with {start}",
    ]
    assert fine_tuning(texts, tmp_path, uninterrupted, "model={heads: 2, dropout: 0.5}").model.dropout == 0.5
    with pytest.raises(ConfigError, match=r"train.init_from: .*nowhere: no model here; expected a model directory or"):
        fine_tuning(texts, tmp_path, tmp_path / "nowhere")
