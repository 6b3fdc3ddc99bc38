"""One model for two target languages: it learns both, and `--to` chooses one, in every command that uses the model."""

import json
import random
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import Result

from nmt.commands.train import train
from nmt.config import Recipe, load_recipe
from nmt.system.console import Console
from nmt.text.prepared import balancing_weights
from tests.builders import SOURCE_WORDS, TARGET_WORDS, TINY_SHAPE, run_command, write_lines, write_reversal_task

HAN = "天地人山水火木金土日"
QUIET = Console(quiet=True)


def rows(count: int, seed: int) -> list[str]:
    """Return sentences in columns: the source, its Italian translation word by word, its Chinese one in Han."""
    choose = random.Random(seed)
    numbers = [choose.choices(range(10), k=choose.randint(2, 4)) for _ in range(count)]
    sides = ((SOURCE_WORDS, " "), (TARGET_WORDS, " "), (HAN, ""))
    return ["\t".join(space.join(words[n] for n in one) for words, space in sides) for one in numbers]


def texts_of(name: str) -> list[dict[str, object]]:
    columns = {"it": [1, 2], "zh": [1, 3]}
    return [{"file": f"{name}.tsv", "columns": columns[code], "target_language": code} for code in columns]


def write_task(folder: Path) -> Path:
    recipe = write_reversal_task(
        folder,
        changes={
            "languages": {"source": "en", "target": ["it", "zh"]},
            "data": {name: texts_of(name) for name in ("train", "valid", "test")},
            "tokenizer": {"vocab_size": 356, "type": "bpe"},
            "model": {**TINY_SHAPE, "dim": 32, "feed_forward": 64, "dropout": 0.0},
            "train": {
                "batch_tokens": 512,
                "schedule": {"name": "linear", "rate": 0.015, "warmup": 20},
                "stop": {"steps": 140},
                "validate_every": 140,
                "log_every": 80,
            },
        },
    )
    for number, (name, count) in enumerate((("train", 1000), ("valid", 20), ("test", 20))):
        write_lines(folder / f"{name}.tsv", *rows(count, number))
    return recipe


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return load_recipe(write_task(tmp_path_factory.mktemp("languages")))


@pytest.fixture(scope="module")
def run(recipe: Recipe) -> Path:
    with chdir(recipe.run.parent):  # where `runs/latest` is written
        train(recipe, QUIET)
    return recipe.run


def translated(run: Path, *options: str) -> Result:
    return run_command("translate", "-m", run, "-i", write_lines(run.parent / "input", "ba ce di"), *options)


def test_both_languages_are_learned(run: Path) -> None:
    translations = (run / "test.txt").read_text().splitlines()
    assert len(translations) == 40
    for place, own in ((1, translations[:20]), (2, translations[20:])):
        expected = [row.split("\t")[place] for row in rows(20, 2)]
        assert sum(one == other for one, other in zip(own, expected, strict=True)) >= 17


def test_scores_are_logged_by_language_and_their_mean_is_the_score(run: Path) -> None:
    log = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (validation,) = (record for record in log if record["type"] == "validation")
    for name in ("bleu", "chrf"):
        assert validation[name] == pytest.approx((validation[f"{name}_it"] + validation[f"{name}_zh"]) / 2)
    scores = json.loads((run / "test.json").read_text())
    assert [(one["language"], one["name"]) for one in scores] == [
        ("it", "BLEU"), ("it", "chrF2"), ("zh", "BLEU"), ("zh", "chrF2"),
    ]  # fmt: skip
    assert ["tok:13a" in scores[0]["signature"], "tok:zh" in scores[2]["signature"]] == [True, True]


def test_option_chooses_the_language(run: Path) -> None:
    assert translated(run, "--to", "it").stdout == "sab tec vid\n"
    assert translated(run, "--to", "zh").stdout == "天地人\n"
    assert translated(run, "--to", "zh", "--alignment").stdout == "天地人\t0-0 1-1 2-2\n"
    for options, found in (((), "is not set"), (("--to", "fr"), "found fr")):
        result = translated(run, *options)
        assert result.exit_code == 2
        assert f"--to: {found}, expected it or zh, the target language" in result.stderr


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0, 100.0])
def test_shares_of_corpora_follow_the_temperature(temperature: float) -> None:
    pairs = [300_000, 24_000, 500]
    weights = balancing_weights(pairs, temperature)
    sizes = [count * weight for count, weight in zip(pairs, weights, strict=True)]
    assert sum(sizes) == pytest.approx(sum(pairs))
    for one, other in ((0, 1), (1, 2)):
        assert sizes[one] / sizes[other] == pytest.approx((pairs[one] / pairs[other]) ** (1 / temperature))
    assert temperature != 1 or weights == [1.0, 1.0, 1.0]


def test_corpus_without_pairs_has_no_share() -> None:
    assert balancing_weights([0, 10], 5.0) == [1.0, 1.0]
