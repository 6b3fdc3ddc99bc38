"""Fonts: every character of a label has a glyph or is written as U+XXXX; the embedded font has just what is needed."""

import base64
import io
import re
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from nmt.report import fonts
from nmt.report.fonts import embedded_font, fonts_for

ANCIENT = "\N{ANATOLIAN HIEROGLYPH A001}"  # in hardly any font


def without_fonts_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = fonts._other_fonts()[-1]
    monkeypatch.setattr(fonts, "_other_fonts", lambda: [shipped])


def test_shipped_font_has_all_chinese_characters_of_the_demonstration_corpus(
    monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    without_fonts_of_the_machine(monkeypatch)
    corpus = [(repository / "data" / "demo" / f"{part}.tsv").read_text("utf-8") for part in ("train", "valid", "test")]
    found = fonts_for(corpus)
    assert found.missing == frozenset()
    assert found.warning() is None
    assert found.families == ("DejaVu Sans", "nmt Common Han")


def test_shipped_font_has_gb_2312(monkeypatch: pytest.MonkeyPatch) -> None:
    without_fonts_of_the_machine(monkeypatch)
    codes = [bytes((row, cell)) for row in range(0xB0, 0xF8) for cell in range(0xA1, 0xFF)]
    characters = "".join(code.decode("gb2312", errors="ignore") for code in codes)
    assert "浏" in characters
    assert fonts_for([characters]).missing == frozenset()


def test_latin_text_needs_no_second_font() -> None:
    assert fonts_for(["▁Perché no?", "</s>"]).families == ("DejaVu Sans",)


def test_character_without_a_glyph_is_written_as_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    without_fonts_of_the_machine(monkeypatch)
    found = fonts_for([f"猫{ANCIENT}"])
    assert found.label(f"猫{ANCIENT}") == "猫U+14400"
    assert "fonts-noto-cjk" in (found.warning() or "")


def test_dollar_signs_begin_no_formula() -> None:
    assert fonts_for(["$5"]).label("$5 or $6") == r"\$5 or \$6"


def test_embedded_font_has_just_the_characters_beyond_latin() -> None:
    rule = embedded_font("The cat: 猫在睡觉。")
    assert re.search(r"unicode-range:(.*)}", rule)[1].count("U+") == 5  # type: ignore[index]
    content = base64.b64decode(re.search(r"base64,([^)]*)\)", rule)[1])  # type: ignore[index]
    assert {chr(code) for code in TTFont(io.BytesIO(content)).getBestCmap()} == set("猫在睡觉。")


def test_characters_of_two_fonts_are_embedded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shipped = fonts._other_fonts()[-1][1]
    parts = [tmp_path / "one.ttf", tmp_path / "two.ttf"]
    for part, characters in zip(parts, ("猫在", "睡觉"), strict=True):
        with TTFont(io.BytesIO(fonts._subset(Path(shipped), set(characters)))) as font:
            font.flavor = None
            font.save(part)
    monkeypatch.setattr(fonts, "_other_fonts", lambda: [(part.stem, str(part)) for part in parts])
    ranges = re.findall(r"unicode-range:([^}]*)}", embedded_font("猫在睡觉"))
    assert sorted(chr(int(code[2:], 16)) for one in ranges for code in one.split(",")) == sorted("猫在睡觉")


def test_latin_text_embeds_no_font() -> None:
    assert embedded_font("Il gatto dorme.") == ""
