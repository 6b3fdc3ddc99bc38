"""Training and translation on a simulated device give the same results as on the CPU; see `other_device`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.batching.batch import Batch, assemble
from nmt.commands import train as command
from nmt.commands.train import train
from nmt.config import (
    DecodeSettings,
    Languages,
    MaxLength,
    ModelSettings,
    RuntimeSettings,
    TokenizerSettings,
    load_recipe,
)
from nmt.model.checkpoint import TorchModel
from nmt.model.stored import LoadedModel
from nmt.model.transformer import Transformer
from nmt.system.console import Console
from nmt.text.glossary import Glossary
from nmt.text.prepared import Sentences
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.training import loop
from nmt.training.update import Updater
from nmt.translation.translator import Translator
from tests.builders import TINY_SHAPE, tiny_model, tiny_recipe, write_reversal_task
from tests.other_device import OTHER, OtherDevice
from tests.training.updates import PAIRS, VOCABULARY

CPU = torch.device("cpu")
WORDS = ["a dog", "the black cat sleeps", "two dogs and a cat", "see {0} at https://a.org", "no"]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": "post", "tied_embeddings": "none", "positions": "learned"},
    {"positions": "relative"},
    {"positions": "rotary", "activation": "swiglu"},
]


SHORT_OUTPUT = MaxLength(factor=1, extra=2)  # a random model rarely predicts the end


def loaded_on(device: torch.device, seed: int = 0, **variant: Any) -> LoadedModel:
    tokenizer = Tokenizer.train(WORDS * 4, TokenizerSettings(vocab_size=285))
    torch.manual_seed(seed)
    shape = ModelSettings(encoder_layers=1, decoder_layers=1, dim=16, feed_forward=32, heads=2, **variant)
    model = Transformer(shape, len(tokenizer), len(tokenizer)).to(device).eval()
    languages, settings = Languages(source="en", target="it"), DecodeSettings(beam=3, max_length=SHORT_OUTPUT)
    return TorchModel(shape, Tokenizers(tokenizer, tokenizer), languages, settings, 200, in_torch=model)


Outputs = tuple[list[Any], list[float]]


def translations(translator: Translator, overrides: list[str], **options: int) -> Outputs:
    """Return the texts, with those of the alternatives, and their log-probabilities."""
    results = list(translator.translate([*WORDS, ""], translator.options(overrides=overrides, **options)))
    texts = [(one.text, [other.text for other in one.alternatives]) for one in results]
    return texts, [one.log_prob for one in results]


def assert_same(found: Outputs, expected: Outputs) -> None:
    """Assert that the numbers are the same except for rounding, and the rest without exception."""
    assert found[0] == expected[0]
    assert found[1] == pytest.approx(expected[1], abs=1e-4)


def test_operation_on_two_devices_raises() -> None:
    with OtherDevice():
        ones = torch.ones(2, 3).to(OTHER)
        assert (ones + ones).device == OTHER
        with pytest.raises(RuntimeError, match="tensors of two devices"):
            ones + torch.ones(2, 3)
        assert (2 * ones).cpu().tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(("variant", "beam"), [*((variant, 3) for variant in VARIANTS), ({}, 1)], ids=str)
def test_search_on_another_device_equals_cpu(variant: dict[str, Any], beam: int) -> None:
    runtime = RuntimeSettings(device="cpu")
    expected = translations(Translator(loaded_on(CPU, **variant), runtime), [], beam=beam)
    with OtherDevice():
        assert_same(translations(Translator(loaded_on(OTHER, **variant), runtime), [], beam=beam), expected)


@pytest.mark.parametrize(
    "overrides",
    [
        ["decode.sampling.temperature=0.8"],
        ["decode.no_repeat_ngram=2"],
    ],
    ids=str,
)
def test_search_options_on_another_device_equal_cpu(overrides: list[str]) -> None:
    runtime = RuntimeSettings(device="cpu")
    expected = translations(Translator(loaded_on(CPU), runtime), overrides, n_best=2)
    with OtherDevice():
        assert_same(translations(Translator(loaded_on(OTHER), runtime), overrides, n_best=2), expected)


def test_ensemble_forced_scoring_alignment_and_glossary_on_another_device_equal_cpu(tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("dog\tcane\n")
    pairs = [("a dog", "two dogs"), ("the cat", "no")]

    def all_outputs(device: torch.device) -> Outputs:
        runtime = RuntimeSettings(device="cpu")
        translator = Translator(loaded_on(device), runtime)
        ensemble = Translator(loaded_on(device), runtime, [loaded_on(device, seed=1)])
        forced = translator.force(pairs, translator.options())
        options = replace(translator.options(beam=2), glossary=Glossary.read(tmp_path / "terms.tsv"))
        with_terms = [one.text for one in translator.translate(WORDS[:2], options)]
        texts, log_probs = translations(ensemble, [])
        texts += [translator.align(pairs), with_terms]
        return texts, log_probs + [log_prob for one in forced for log_prob in one.token_log_probs]

    expected = all_outputs(CPU)
    with OtherDevice():
        assert_same(all_outputs(OTHER), expected)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_steps_attention_and_vectors_on_another_device_equal_cpu(variant: dict[str, Any]) -> None:
    def numbers(device: torch.device) -> tuple[list[str], list[torch.Tensor]]:
        translator = Translator(loaded_on(device, **variant), RuntimeSettings(device="cpu"))
        steps, attention = translator.steps(WORDS[1], top=3), translator.attention(WORDS[1])
        probabilities = torch.tensor([probability for step in steps for _, probability in step.best])
        tensors = [probabilities, attention.encoder, attention.decoder, attention.cross, translator.encode(WORDS)]
        return [piece for step in steps for piece, _ in step.best], tensors

    pieces, expected = numbers(CPU)
    with OtherDevice():
        found_pieces, found = numbers(OTHER)
    assert found_pieces == pieces
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_training_on_another_device_equals_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    changes = {
        "model": {**TINY_SHAPE, **variant, "dropout": 0.0},  # random numbers differ between devices
        "train": {
            "batch_tokens": 64,
            "accumulate": 2,
            "schedule": {"name": "constant", "rate": 0.01},
            "stop": {"steps": 3},
            "log_every": 1,
            "validate_every": 2,
        },
    }
    recipe = write_reversal_task(tmp_path, 40, 2, changes)
    train(load_recipe(recipe, ["run=here"]), Console(silent=True))
    for module in (command, loop):
        monkeypatch.setattr(module, "choose_device", lambda settings: OTHER)
    with OtherDevice():
        train(load_recipe(recipe, ["run=there"]), Console(silent=True))

    def losses(run: str) -> list[float]:
        return [json.loads(line)["loss"] for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]

    assert losses("there") == pytest.approx(losses("here"), abs=1e-5)
    assert len(losses("there")) > 3


def numbers_in(batch: Batch) -> int:
    return len(batch.labels) + sum(3 * len(side.ids) + len(side.tiles) for side in (batch.source, batch.target))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_update_sends_a_batch_at_once_and_receives_its_results_at_once(variant: dict[str, Any]) -> None:
    """Besides whether they are finite, which kernels for GPUs do not ask for."""
    model = tiny_model(1, VOCABULARY, **variant)
    with OtherDevice() as device:
        updater = Updater(model, tiny_recipe(), OTHER)
        source, target = (Sentences.of(side) for side in zip(*PAIRS, strict=True))
        batches = [assemble([(source, target)] * groups) for groups in (1, 3)]
        updater.update(batches, 0, 80)  # sends the table of positions
        device.transfers.update(sent=[], received=[])
        found = updater.update(batches, 1, 80)
        assert device.transfers == {"sent": [numbers_in(batch) for batch in batches], "received": [1]}
        found.results()
        assert device.transfers["received"] == [1, 3]
