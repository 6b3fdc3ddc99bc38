"""Validation: loss and scores, compared with those of single sentences."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nmt.config import DecodeSettings, RuntimeSettings
from nmt.model.stored import LoadedModel
from nmt.text.prepared import CorpusPart, PreparedSplit, Sentences
from nmt.text.tokenizer import BOS, EOS
from nmt.training.validation import ScoredText, evaluate, mean_loss
from tests.builders import tiny_loaded_model
from tests.training.runs import evaluation_of

SOURCES = ["la casa è rossa", "gatto", "", "il gatto dorme per la casa", "una casa"]
REFERENCES = ["the house is red", "cat", "the", "the cat sleeps", "the house"]
RUNTIME = RuntimeSettings(device="cpu", threads=1)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return replace(tiny_loaded_model(language="en"), decode=DecodeSettings(beam=2, batch_tokens=200))


@pytest.mark.parametrize("budget", [1, 16, 1000])
def test_mean_loss_equals_the_mean_over_single_tokens(loaded: LoadedModel, budget: int) -> None:
    encode = loaded.tokenizers.source.encode
    source, target = (Sentences.of([encode(line) for line in side]) for side in (SOURCES, REFERENCES))
    split, model = PreparedSplit(source, target, (CorpusPart(len(SOURCES)),)), loaded.model
    found = mean_loss(model, split, budget)
    log_probs = []
    with torch.no_grad():
        for line, reference in zip(SOURCES, REFERENCES, strict=True):
            given = torch.tensor([[*encode(line), EOS]])
            prefix = [BOS]
            for token in [*encode(reference), EOS]:
                logits = model(given, None, torch.tensor([prefix]))[0, -1]
                log_probs.append(logits.log_softmax(-1)[token].item())
                prefix.append(token)
    assert found == pytest.approx(-np.mean(log_probs), rel=1e-5)


def test_translations_do_not_depend_on_their_batch(loaded: LoadedModel) -> None:
    shown: list[int] = []
    text = ScoredText(SOURCES, REFERENCES, "en")
    together = evaluate(loaded, RUNTIME, [text, text], lambda done, _: shown.append(done))
    singles = [ScoredText([s], [r], "en") for s, r in zip(SOURCES, REFERENCES, strict=True)]
    alone = [evaluate(loaded, RUNTIME, [single]).translations[0][0] for single in singles]
    assert together.translations == [alone, alone]
    assert shown == [5, 10]
    assert [score.name for score in together.scores[1]] == ["BLEU", "chrF2"]
    assert together.samples == [("una casa", "the house", alone[4])] * 2, "the first sentence of median length"


def test_metrics_are_higher_for_better_models() -> None:
    evaluation = evaluation_of(np.log(8), 20.0, 40.0)
    assert (evaluation.metric("bleu"), evaluation.metric("chrf")) == (20.0, 40.0)
    assert evaluation.metric("loss") > evaluation_of(2.5, 0.0, 0.0).metric("loss")
