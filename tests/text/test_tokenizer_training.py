"""The tokenizers of a corpus: the sample and the number of pieces, and characters without a piece."""

import math
from collections import Counter
from pathlib import Path

import pytest

from nmt.config import TokenizerSettings
from nmt.text.tokenizer import proposed_size
from tests.builders import SENTENCES, TINY_SHAPE, run_command, save_model, tiny_loaded_model, write_recipe, write_tsv

LATIN = [(f"the cat sleeps {n}", f"il gatto dorme {n}") for n in "abcdegin"]
CHINESE = [(f"the cat sleeps {n}", f"猫睡觉猫{n}") for n in "abcdegin"]


def test_size_is_the_symbols_the_alphabet_and_the_root_of_the_text() -> None:
    counts = Counter("ababab c")
    assert proposed_size(8, counts, TokenizerSettings()) == 4 + 256 + 4 + round(1.8 * math.sqrt(8))
    assert proposed_size(8, counts, TokenizerSettings(), tags=2) == 4 + 2 + 256 + 4 + round(1.8 * math.sqrt(8))


def test_rare_characters_beyond_the_coverage_are_not_in_the_alphabet() -> None:
    for frequent, alphabet in ((9_998, 2), (9_999, 1), (9_980, 2)):
        counts = Counter({"a": frequent, "b": 10_000 - frequent})
        assert proposed_size(0, counts, TokenizerSettings()) == 4 + 256 + alphabet


@pytest.mark.parametrize(
    ("pairs", "characters_a_pair", "alphabet", "low", "high"),
    [
        (500, 60, 70, 500, 1000),
        (5_000, 220, 80, 2_000, 2_500),  # 2,000: Sennrich & Zhang 2019
        (24_000, 40, 2_700, 4_500, 5_500),  # 5,000: recipes/tatoeba-en-zh-cpu.yaml
        (306_000, 63, 90, 7_500, 9_000),  # 8,000: recipes/tatoeba-en-it-cpu.yaml
        (5_000_000, 250, 300, 32_000, 32_000),  # the bound
    ],
)
def test_size_for_corpora_of_all_sizes(pairs: int, characters_a_pair: int, alphabet: int, low: int, high: int) -> None:
    counts = Counter({chr(0x4E00 + number): 1000 for number in range(alphabet)})
    size = proposed_size(pairs * characters_a_pair, counts, TokenizerSettings())
    assert low <= size <= high
    assert size % 64 == 0


def prepared(folder: Path, **changes: object) -> str:
    """Prepare a recipe with several texts; return what is printed."""
    train = [
        {"file": str(write_tsv(folder / "it.tsv", LATIN)), "target_language": "it"},
        {"file": str(write_tsv(folder / "zh.tsv", CHINESE)), "target_language": "zh"},
    ]
    languages = {"source": "en", "target": ["it", "zh"]}
    write_recipe(folder, **{"languages": languages, "data": {"train": train}, "model": TINY_SHAPE, **changes})
    result = run_command("prepare", "-c", folder / "recipe.yaml")
    assert result.exit_code == 0, result.stderr
    return result.stderr


@pytest.mark.parametrize(("code", "pairs", "warned"), [("it", LATIN, False), ("zh", CHINESE, True)])
def test_initial_tokenizer_that_does_not_fit_is_warned_about(
    tmp_path: Path, code: str, pairs: list[tuple[str, str]], warned: bool
) -> None:
    save_model(tmp_path / "model", tiny_loaded_model())
    data = {"train": [{"file": str(write_tsv(tmp_path / "own.tsv", pairs))}]}
    printed = prepared(
        tmp_path,
        languages={"source": "en", "target": code},
        data=data,
        model={},
        train={"init_from": str(tmp_path / "model")},
    )
    assert "。" in SENTENCES[-1]
    assert ("warning: train.init_from: its tokenizer has no piece for" in printed) == warned
    if warned:
        # four of the five characters of each line are 猫, 睡 or 觉, which the tokenizer was not trained on
        assert "80.0% of the characters of the target text, and writes them in bytes" in printed
