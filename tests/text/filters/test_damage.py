"""Wrongly decoded text: real misreadings of text in many languages, and text that resembles them; lines of symbols."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.filters.damage import damage, mostly_symbols

LINES = {
    "it": "Perché no? La città è più bella.",
    "fr": "L’été, c’est déjà fini « oui ».",
    "de": "Schöne Grüße „aus“ München.",
    "es": "¿Dónde está el niño?",
    "pl": "Zażółć gęślą jaźń.",
    "cs": "Příliš žluťoučký kůň.",
    "tr": "Türkçe değil, ışık.",
    "vi": "Tôi không biết gì cả.",
    "ru": "Привет, как дела?",
    "el": "Δεν ξέρω τίποτα.",
    "he": "שלום עולם",
    "ar": "مرحبا بالعالم",
    "hi": "नमस्ते दुनिया",
    "ja": "こんにちは世界。",
    "ko": "안녕하세요 여러분",
    "zh": "今天天气很好，我们去公园吧。",
}
UNDEFINED_IN_WINDOWS_1252 = {0x81, 0x8D, 0x8F, 0x90, 0x9D}


def as_windows_1252(data: bytes) -> str:
    """Decode as browsers do: bytes without a character in Windows-1252 are those of Latin-1."""
    return "".join(chr(b) if b in UNDEFINED_IN_WINDOWS_1252 else bytes([b]).decode("cp1252") for b in data)


@pytest.mark.parametrize("language", LINES)
def test_utf8_read_as_another_encoding_is_found(language: str) -> None:
    line = LINES[language]
    assert damage(line) is None
    assert damage(line.encode().decode("latin-1")) is not None
    assert damage(as_windows_1252(line.encode())) is not None


def test_evidence_shows_the_characters_and_what_they_were() -> None:
    assert damage("PerchÃ© no?") == "“Ã©” for “é”"
    assert damage("mobilit\ufffd e libertà") == "“\ufffd” at character 8"


@pytest.mark.parametrize(
    "line",
    ["mobilit\ufffd", "锟斤拷你好", "今天天气很好我们去".encode("gb18030").decode("latin-1"), "Itâ€™s mine"],
)
def test_other_damage_is_found(line: str) -> None:
    assert damage(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "«PERCHÉ»", "È la CITTÀ…", "MANHÃ…", "NÃO “SÃO”", "„Ä“ ist ein Umlaut", "né»… oui", "ÄÖÜäöü", "éèàùòì", "Ã",
        "¿Él…?",        "10 °C, ½ l", "naïve café", "Ð is a letter", "Ñandú", "×3", "plain",
    ],
)  # fmt: skip
def test_letters_beside_punctuation_are_no_damage(line: str) -> None:
    assert damage(line) is None


@given(st.binary(max_size=60))
def test_damage_accepts_any_text(data: bytes) -> None:
    for codec in ("utf-8", "latin-1", "cp1252", "gb18030"):
        found = damage(data.decode(codec, "replace"))
        assert found is None or found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("16, 18, 27, 28, 61, 87, 104", "100% digits and symbols"),
        ("-----+------+-----", "100% digits and symbols"),
        ("x = 2 ** 10 / (3.5 - 1)", "93% digits and symbols"),
        ("It's 3:30.", None),
        ("10:30", None),
        ("iPad 167 x 167", None),
        ("你好！！！……123", None),
        ("Plain text, with 12 words.", None),
    ],
)
def test_text_of_mostly_symbols_is_found(text: str, found: str | None) -> None:
    assert mostly_symbols(text, "testo") == found
    assert mostly_symbols("text", text) == found
