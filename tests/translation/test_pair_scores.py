"""Pairs that a model finds as improbable as shuffled ones are removed before a training."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from nmt.commands.prepare import prepare
from nmt.config import Languages
from nmt.config.section import SettingError
from nmt.decoding.forced_decoding import Forced
from nmt.system.console import Console
from nmt.text.manifest import why_stale
from nmt.translation import pair_scores, sharing
from nmt.translation.translator import Translator
from tests.builders import recipe_in, tiny_loaded_model, write_recipe, write_tsv

NO_WEIGHTS = np.zeros((0, 1), dtype=np.float32)
QUIET = Console(silent=True)
WRONG = range(0, 300, 10)
GOOD, BAD = -0.5, -4.0  # nats a token of a target that belongs to its source, and of another


class Knowing(Translator):
    """A translator that knows which target belongs to a source: the same number is in both."""

    def force(self, pairs: Sequence[tuple[str, str]], options: object) -> list[Forced]:  # type: ignore[override]
        noise = random.Random(1)
        return [
            Forced([(GOOD if source.split()[0] == target.split()[0] else BAD) + noise.uniform(-1, 1)] * 5, NO_WEIGHTS)
            for source, target in pairs
        ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text with wrong pairs, and a recipe that names a model which knows them."""
    targets = [f"{n} persone erano nella casa" for n in range(300)]
    targets[5] += " molto" * 400  # too long to be scored: it is kept, and no limit
    for n in WRONG:
        targets[n] = f"{n + 1000} navi erano nel porto"
    write_tsv(tmp_path / "train.tsv", [(f"{n} people were in the house", target) for n, target in enumerate(targets)])
    write_recipe(
        tmp_path,
        data={
            "train": [{"file": "train.tsv"}],
            "filters": {"scored_by": "model", "keep": ["length"], "max_tokens": 3000},
        },
        tokenizer={"vocab_size": 310},
    )
    monkeypatch.setattr(Translator, "load", lambda *_, **__: Knowing(tiny_loaded_model()))
    return tmp_path


@pytest.mark.parametrize("processes", [1, 2])
def test_wrong_pairs_are_removed_and_counted(folder: Path, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several processes of torchrun, the first one does this alone, while the others wait for the corpus."""
    for module in (pair_scores, sharing):
        monkeypatch.setattr(module, "world_size", lambda: processes)
    rejected = folder / "rejected.tsv"
    corpus = prepare(recipe_in(folder), QUIET, rejected=rejected)
    rows = [line.split("\t") for line in rejected.read_text(encoding="utf-8").splitlines()]
    assert {row[0] for row in rows} == {"improbable"}
    found = {int(row[1].rpartition(":")[2]) - 1 for row in rows}
    assert found <= set(WRONG)
    assert len(found) >= 0.8 * len(WRONG)  # 5 % of shuffled pairs are above the limit
    assert "nats a token; pairs above" in rows[0][2]
    assert corpus.manifest.train.kept == 300 - len(found)


@pytest.mark.parametrize("numbers", [sorted([*range(150)] * 2), [*range(150)] * 2], ids=["neighbors", "halves"])
def test_right_pairs_stay_where_sources_have_two_translations(folder: Path, numbers: list[int]) -> None:
    """Such as a text that is sorted, or two texts with the same sources, as for distillation."""
    pairs = [(f"{n} people were here", f"{n} persone erano qui, {i} volte") for i, n in enumerate(numbers)]
    write_tsv(folder / "train.tsv", pairs)
    assert prepare(recipe_in(folder), QUIET).manifest.train.kept == 300


def test_the_best_model_of_another_run_is_another_filter(folder: Path) -> None:
    prepare(recipe_in(folder, "data.filters.scored_by=a/best"), QUIET)
    assert why_stale(recipe_in(folder, "data.filters.scored_by=elsewhere/a/best")) is None
    for other in ("b/best", "a/last", "a"):
        assert "data.filters.scored_by" in str(why_stale(recipe_in(folder, f"data.filters.scored_by={other}")))


def test_model_that_does_not_know_the_text_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.translation.test_pair_scores.GOOD", BAD)
    with pytest.raises(SettingError, match=r"filters\.scored_by: .*as improbable as shuffled ones, so it was"):
        prepare(recipe_in(folder), QUIET)
    other = Languages(source="de", target=("it",))
    monkeypatch.setattr(Translator, "languages", other, raising=False)
    monkeypatch.setattr(Translator, "load", lambda *_, **__: Translator)
    with pytest.raises(SettingError, match="translates de → it, but the text is en → it"):
        prepare(recipe_in(folder), QUIET)
