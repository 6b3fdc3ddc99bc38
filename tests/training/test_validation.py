"""Validation loss and scores, compared with those of single sentences."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.config import (
    CorpusFile,
    Data,
    DecodeSettings,
    Languages,
    ModelSettings,
    Recipe,
    RuntimeSettings,
    TokenizerSettings,
)
from nmt.model.checkpoint import LoadedModel
from nmt.model.transformer import Transformer
from nmt.text.prepared import CorpusPart, PreparedSplit
from nmt.text.tokenizer import BOS, EOS, Tokenizer, Tokenizers
from nmt.training.step import Updater
from nmt.training.validation import ScoredText, degeneration, evaluate, mean_loss
from tests.builders import token_store
from tests.training.runs import evaluation_of

LINES = ["il gatto dorme", "la casa è rossa", "the cat sleeps", "the house is red", "una casa per il gatto"] * 4
SOURCES = ["la casa è rossa", "gatto", "", "il gatto dorme per la casa", "una casa"]
REFERENCES = ["the house is red", "cat", "the", "the cat sleeps", "the house"]


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    shared = Tokenizer.train(LINES, TokenizerSettings(vocab_size=296, type="bpe"))
    return Tokenizers(shared, shared)


@pytest.fixture
def updater() -> Updater:
    torch.manual_seed(1)
    chosen = Recipe(
        languages=Languages(source="it", target="en"),
        data=Data(train=(CorpusFile(file=Path("train.tsv")),)),
        model=ModelSettings(encoder_layers=1, decoder_layers=1, dim=8, heads=2, feed_forward=16, dropout=0.5),
        run=Path("run"),
    )
    return Updater(Transformer(chosen.model, 296, 296), chosen, torch.device("cpu"))


def split_of(tokenizers: Tokenizers) -> PreparedSplit:
    source, target = (token_store([tokenizers.source.encode(line) for line in side]) for side in (SOURCES, REFERENCES))
    return PreparedSplit(source, target, (CorpusPart(len(source)),))


@pytest.mark.parametrize("budget", [1, 16, 1000])
def test_mean_loss_equals_the_mean_over_single_tokens(tokenizers: Tokenizers, updater: Updater, budget: int) -> None:
    split, model, total, count = split_of(tokenizers), updater.model, 0.0, 0
    found = mean_loss(updater.validation_objective(), split, budget, updater.recipe.runtime)
    model.eval()
    with torch.no_grad():
        for source, target in zip(split.source, split.target, strict=True):
            memory = model.encode(torch.tensor([[*source.tolist(), EOS]]), None)
            prefix = [BOS]
            for token in [*target.tolist(), EOS]:
                log_probs = model.logits(model.decode(torch.tensor([prefix]), memory, None))[0, -1].log_softmax(-1)
                total -= log_probs[token].item()
                count += 1
                prefix.append(token)
    assert found == pytest.approx(total / count, rel=1e-5)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_translations_do_not_depend_on_their_batch(tokenizers: Tokenizers, updater: Updater) -> None:
    languages = Languages(source="it", target="en")
    loaded = LoadedModel(updater.model, tokenizers, languages, DecodeSettings(beam=2, batch_tokens=20))
    runtime = RuntimeSettings(device="cpu", threads=1)
    together = evaluate(loaded, runtime, [ScoredText(SOURCES, REFERENCES, "en")])
    singles = [ScoredText([s], [r], "en") for s, r in zip(SOURCES, REFERENCES, strict=True)]
    alone = [evaluate(loaded, runtime, [single]).translations[0] for single in singles]
    assert together.translations == alone
    assert [(language, score.name) for language, score in together.scores] == [("en", "BLEU"), ("en", "chrF2")]
    assert together.as_text().split("\n") == [*alone, ""]
    assert json.loads(together.as_json())[0]["value"] == together.bleu
    assert "language" not in json.loads(together.as_json())[0]


def test_metrics_are_higher_for_better_models() -> None:
    validation = evaluation_of(np.log(8), 20.0, 40.0)
    assert validation.perplexity == pytest.approx(8)
    assert validation.metric("bleu") == 20.0
    assert validation.metric("chrf") == 40.0
    assert validation.metric("loss") > evaluation_of(2.5, 0.0, 0.0).metric("loss")
    assert evaluation_of(1e6, 0.0, 0.0).perplexity < float("inf")


def test_sample_is_the_first_sentence_of_median_length_with_its_translation(
    tokenizers: Tokenizers, updater: Updater
) -> None:
    loaded = LoadedModel(updater.model, tokenizers, Languages(source="it", target="en"), DecodeSettings(beam=1))
    shown: list[int] = []
    text = ScoredText(SOURCES, REFERENCES, "en")
    result = evaluate(loaded, RuntimeSettings(device="cpu"), [text], show=lambda done, _: shown.append(done))
    assert result.texts[0].sample == ("una casa", "the house", result.translations[4])
    assert shown[-1] == len(SOURCES)


@pytest.mark.parametrize(
    ("translations", "fault"),
    [
        (["a cat", "a dog", "a bird", "a cat"], None),
        (["", "", "", "a dog"], "3 of 4 translations are empty"),
        (["the the", "the the", "the the", "a dog"], "3 of 4 translations are the same: 'the the'"),
        (
            ["la la la la la la", "x 的的的的的的的", ", , , , , ,", "a dog"],
            "3 of 4 translations repeat one token: 'la la la la la la'",
        ),
        (["....", "...", "la la la", "a dog"], "3 of 4 translations repeat one token: '....'"),
        (["no no", "very very good", "1,000,000", "哈哈哈"], None),
        (["a cat"], None),
    ],
)
def test_degenerate_translations_are_recognized(translations: list[str], fault: str | None) -> None:
    assert degeneration(translations) == fault
