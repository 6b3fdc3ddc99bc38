"""One model for two target languages: it learns both, and `--to` chooses one, in every command that uses the model."""

import json
import random
from pathlib import Path

import pytest

from nmt.commands.train import Outcome, train
from nmt.config import Recipe, load_recipe
from nmt.errors import ConfigError
from nmt.system.console import Console
from nmt.text.prepared import PreparedCorpus
from nmt.text.preparing.provenance import why_stale
from nmt.translation.translator import Translator
from tests.builders import SOURCE_WORDS, TARGET_WORDS, run_command, write_lines, write_reversal_task

HAN = "天地人山水火木金土日"
QUIET = Console(quiet=True)


def rows(count: int, seed: int) -> list[str]:
    """Return sentences in columns: the source, its Italian translation word by word, its Chinese one in Han."""
    choose = random.Random(seed)
    numbers = [choose.choices(range(10), k=choose.randint(2, 4)) for _ in range(count)]
    return [
        "\t".join(
            (
                " ".join(SOURCE_WORDS[n] for n in one),
                " ".join(TARGET_WORDS[n] for n in one),
                "".join(HAN[n] for n in one),
            )
        )
        for one in numbers
    ]


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
            "model": {
                "encoder_layers": 1,
                "decoder_layers": 1,
                "dim": 32,
                "feed_forward": 64,
                "heads": 2,
                "dropout": 0.0,
            },
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
def outcome(recipe: Recipe) -> Outcome:
    return train(recipe, QUIET)


@pytest.fixture(scope="module")
def run(recipe: Recipe, outcome: Outcome) -> Path:
    return recipe.run


def translated(run: Path, *options: str, line: str = "ba ce di") -> str:
    return run_command("translate", "-m", run, "-i", write_lines(run.parent / "input", line), *options).stdout


def test_both_languages_are_learned(outcome: Outcome) -> None:
    assert outcome.test is not None
    expected = {code: [row.split("\t")[place] for row in rows(20, 2)] for place, code in ((1, "it"), (2, "zh"))}
    for text, translations in zip(outcome.test.texts, outcome.test.translations, strict=True):
        right = [one == other for one, other in zip(translations, expected[text.language], strict=True)]
        assert sum(right) >= 17


def test_scores_are_logged_by_language_and_their_mean_is_the_score(run: Path, outcome: Outcome) -> None:
    log = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (validation,) = (record for record in log if record["type"] == "validation")
    for name in ("bleu", "chrf"):
        assert validation[name] == pytest.approx((validation[f"{name}_it"] + validation[f"{name}_zh"]) / 2)
    scores = json.loads((run / "test.json").read_text())
    assert [(one["language"], one["name"]) for one in scores] == [
        ("it", "BLEU"), ("it", "chrF2"), ("zh", "BLEU"), ("zh", "chrF2"),
    ]  # fmt: skip
    assert ["tok:13a" in scores[0]["signature"], "tok:zh" in scores[2]["signature"]] == [True, True]
    assert outcome.test is not None
    assert (run / "test.txt").read_text().splitlines() == [
        line for lines in outcome.test.translations for line in lines
    ]


def test_option_chooses_the_language(run: Path) -> None:
    assert translated(run, "--to", "it") == "sab tec vid\n"
    assert translated(run, "--to", "zh") == "天地人\n"
    assert json.loads(translated(run, "--to", "zh", "--json"))["text"] == "天地人"
    assert translated(run, "--to", "zh", "--alignment") == "天地人\t0-0 1-1 2-2\n"


def test_translator_takes_the_language(run: Path) -> None:
    translator = Translator.load(run)
    assert [one.text for one in translator.translate(["ba ce"], to="zh")] == ["天地"]
    assert [one.text for one in translator.translate(["ba ce"], translator.options(to="it"))] == ["sab tec"]
    with pytest.raises(ConfigError, match="--to: is not set, expected it or zh, the target languages"):
        translator.options()


def test_given_translations_are_scored_in_the_chosen_language(run: Path) -> None:
    reference = str(write_lines(run.parent / "reference", "天地人"))
    log_probs = [float(translated(run, "--to", code, "--reference", reference).split("\t")[0]) for code in ("it", "zh")]
    assert log_probs[0] < log_probs[1] - 5


@pytest.mark.parametrize(("option", "found"), [((), "is not set"), (("--to", "fr"), "found fr")])
def test_language_must_be_one_of_the_model(run: Path, option: tuple[str, ...], found: str) -> None:
    result = run_command("translate", "-m", run, "-i", write_lines(run.parent / "input", "ba"), *option)
    assert result.exit_code == 2
    assert f"--to: {found}, expected it or zh, the target languages" in result.stderr


def test_model_with_one_language_accepts_only_that(uninterrupted: Path, tmp_path: Path) -> None:
    text = write_lines(tmp_path / "input", "ba ce")
    plain, same, other = (
        run_command("translate", "-m", uninterrupted, "-i", text, *option)
        for option in ((), ("--to", "it"), ("--to", "zh"))
    )
    assert (same.exit_code, same.stdout) == (0, plain.stdout)
    assert other.exit_code == 2
    assert "--to: found zh, expected it, the target language" in other.stderr


def test_commands_on_a_run_name_all_languages(run: Path, tmp_path: Path) -> None:
    assert "en → it, zh" in run_command("inspect", run).stdout
    assert json.loads(run_command("inspect", run, "--json").stdout)["languages"]["target"] == ["it", "zh"]
    page = tmp_path / "page.html"
    assert run_command("report", run, "-o", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    for title in ("Test text (it)", "Test text (zh)", "Validation text (it)", "Validation text (zh)"):
        assert title in text


def test_balance_needs_no_new_preparation(recipe: Recipe, run: Path) -> None:
    manifest = (recipe.prepared_directory / "manifest.json").read_bytes()
    overrides = ["data.train.1.oversample=2"]
    balanced = load_recipe(run.parent / "recipe.yaml", overrides)
    assert why_stale(balanced) is None
    corpora = PreparedCorpus.open(recipe.prepared_directory, balanced).train.corpora
    assert [part.weight for part in corpora] == pytest.approx([1.0, 2.0], abs=0.01)
    assert (recipe.prepared_directory / "manifest.json").read_bytes() == manifest


def test_finished_run_continues_with_the_same_recipe_only(recipe: Recipe, outcome: Outcome) -> None:
    assert train(recipe, QUIET).step == outcome.step
    other = load_recipe(recipe.run.parent / "recipe.yaml", ["data.train.1.oversample=2"])
    with pytest.raises(ConfigError, match=r"data\.train\.1\.oversample: was 1\.0, now 2\.0"):
        train(other, QUIET)
