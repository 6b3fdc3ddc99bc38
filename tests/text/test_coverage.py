"""Characters without a piece: shares by text, and the warning about a tokenizer that does not fit."""

from pathlib import Path

import pytest
import yaml

from tests.builders import SENTENCES, TINY_SHAPE, run_command, save_model, tiny_loaded_model, write_tsv

LATIN = [(f"the cat sleeps {n}", f"il gatto dorme {n}") for n in "abcdegin"]
CHINESE = [(f"the cat sleeps {n}", f"猫睡觉猫{n}") for n in "abcdegin"]


def prepared(folder: Path, **changes: object) -> str:
    """Prepare a recipe with several texts; return what is printed."""
    content = {
        "name": "coverage",
        "languages": {"source": "en", "target": ["it", "zh"]},
        "data": {
            "train": [
                {"tsv": str(write_tsv(folder / "it.tsv", LATIN)), "target_language": "it"},
                {"tsv": str(write_tsv(folder / "zh.tsv", CHINESE)), "target_language": "zh"},
            ]
        },
        "model": TINY_SHAPE,
        "run": str(folder / "run"),
        **changes,
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    result = run_command("prepare", "-c", folder / "recipe.yaml")
    assert result.exit_code == 0, result.stderr
    return result.stderr


def test_shares_are_shown_by_text(tmp_path: Path) -> None:
    printed = prepared(tmp_path, tokenizer={"vocab_size": 285, "coverage": 0.98, "type": "bpe"})
    shares = {line.split()[0]: line.split()[2:] for line in printed.splitlines() if line.startswith("data.train.")}
    assert list(shares) == ["data.train.0", "data.train.1"]
    assert "\ncharacters without a piece" in printed
    latin, chinese = (float(shares[key][1].rstrip("%")) for key in shares)
    assert chinese > latin


@pytest.mark.parametrize(("code", "pairs", "warned"), [("it", LATIN, False), ("zh", CHINESE, True)])
def test_initial_tokenizer_that_does_not_fit_is_warned_about(
    tmp_path: Path, code: str, pairs: list[tuple[str, str]], warned: bool
) -> None:
    save_model(tmp_path / "model", tiny_loaded_model())
    data = {"train": [{"tsv": str(write_tsv(tmp_path / "own.tsv", pairs))}]}
    printed = prepared(
        tmp_path,
        languages={"source": "en", "target": code},
        data=data,
        model={},
        train={"init_from": str(tmp_path / "model")},
    )
    assert "。" in SENTENCES[-1]
    assert "\ncharacters without a piece" not in printed, "the table of several texts"
    assert ("warning: train.init_from: its tokenizer has no piece for" in printed) == warned
    if warned:
        # four of the five characters of each line are 猫, 睡 or 觉, which the tokenizer was not trained on
        assert "80.0% of the characters of the target text; they become bytes" in printed
        assert "3 different ones in the first pairs, most often 猫 睡 觉." in printed
