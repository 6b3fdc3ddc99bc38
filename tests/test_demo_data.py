"""The demonstration corpus: reproducible, without defects, and grammatical in three languages."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

DATA = Path(__file__).resolve().parents[1] / "data"
SPLITS = ("train", "valid", "test")
LANGUAGES = ("en", "it", "zh")
VOWELS = "aeiouàèéìòù"
LO_START = r"(?:s[^aeiouàèéìòù\W]|z|x|y|gn|ps|pn)"
FEMININE_VOWEL_NOUNS = {"amica", "arancia", "e-mail", "idea", "ambulanza"}
Row = tuple[str, str, str]


@pytest.fixture(scope="module")
def generator() -> Iterator[ModuleType]:
    """Load data/generate.py as a module."""
    sys.path.insert(0, str(DATA))
    spec = importlib.util.spec_from_file_location("demo_generate", DATA / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(DATA))


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Row]]:
    """Read the three committed files."""
    parts: dict[str, list[Row]] = {}
    for name in SPLITS:
        rows = (DATA / "demo" / f"{name}.tsv").read_bytes().decode().split("\n")
        assert rows.pop() == ""
        parts[name] = [_row(line) for line in rows]
    return parts


def _row(line: str) -> Row:
    """Split one line into its three columns."""
    en, it, zh = line.split("\t")
    return en, it, zh


def _column(corpus: dict[str, list[Row]], language: str, *splits: str) -> list[str]:
    """Return one language of some splits, of all by default."""
    index = LANGUAGES.index(language)
    return [row[index] for name in splits or SPLITS for row in corpus[name]]


def _forms(text: str, language: str) -> list[str]:
    """Return the word forms of a sentence: characters in Chinese, words elsewhere."""
    return list(text) if language == "zh" else re.findall(r"[^\s.,?!]+", text)


def _matches(pattern: str, sentences: list[str]) -> list[str]:
    """Return the sentences that contain a pattern, regardless of case."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return [sentence for sentence in sentences if compiled.search(sentence)]


def test_generator_reproduces_the_files(generator: ModuleType) -> None:
    """The committed files equal the output of the generator byte for byte."""
    for name, content in generator.build().items():
        assert (DATA / "demo" / f"{name}.tsv").read_bytes() == content


def test_check_reports_stale_files(generator: ModuleType, tmp_path: Path) -> None:
    """A changed or missing file is reported."""
    contents = {"train": b"a\tb\tc\n", "valid": b"d\te\tf\n"}
    (tmp_path / "train.tsv").write_bytes(b"a\tb\tc\r\n")
    assert generator.stale_files(contents, tmp_path) == [tmp_path / "train.tsv", tmp_path / "valid.tsv"]
    for name, content in contents.items():
        (tmp_path / f"{name}.tsv").write_bytes(content)
    assert generator.stale_files(contents, tmp_path) == []


def test_parts_have_the_documented_sizes(corpus: dict[str, list[Row]]) -> None:
    """The parts have the documented sizes."""
    assert 18_000 <= len(corpus["train"]) <= 20_000
    assert len(corpus["valid"]) == len(corpus["test"]) == 500


@pytest.mark.parametrize("language", LANGUAGES)
def test_parts_share_no_sentence(corpus: dict[str, list[Row]], language: str) -> None:
    """No sentence of one part occurs in another, in any language."""
    train, valid, test = (set(_column(corpus, language, name)) for name in SPLITS)
    assert not train & valid
    assert not train & test
    assert not valid & test


def test_english_sentences_are_unique(corpus: dict[str, list[Row]]) -> None:
    """Each English sentence occurs once, hence has one translation."""
    english = _column(corpus, "en")
    assert len(english) == len(set(english))


@pytest.mark.parametrize("language", LANGUAGES)
def test_held_out_forms_occur_in_training(corpus: dict[str, list[Row]], language: str) -> None:
    """Each held-out word form occurs in at least three training sentences."""
    seen = Counter(form for text in _column(corpus, language, "train") for form in set(_forms(text, language)))
    held_out = {form for text in _column(corpus, language, "valid", "test") for form in _forms(text, language)}
    assert not [form for form in held_out if seen[form] < 3]


@pytest.mark.parametrize("language", LANGUAGES)
def test_spacing_of_sentences_is_correct(corpus: dict[str, list[Row]], language: str) -> None:
    """No sentence is empty, untrimmed or doubly spaced; Chinese has no spaces."""
    sentences = _column(corpus, language)
    assert all(text and text == text.strip() for text in sentences)
    assert not _matches(r"[\t\r\u00a0\u3000\ufeff]|  | [.,?!]|' ", sentences)
    if language == "zh":
        assert not _matches(r"\s", sentences)


def test_english_sentences_have_capital_mark_and_article(corpus: dict[str, list[Row]]) -> None:
    """English sentences have a capital, a final mark, and a or an as pronounced."""
    english = _column(corpus, "en")
    assert not [text for text in english if not re.fullmatch(r"[A-Z][A-Za-z0-9' ,.-]*[.?!]", text)]
    assert not _matches(r"\ba [aeiou]", english)
    assert not _matches(r"\ban [^aeiou]", english)
    assert not _matches(r"\b(?:he|she|it) (?:have|do|are|don't)\b(?! you)", _matches(r"^(?:he|she|it) ", english))
    assert not [text for text in english if not 1 <= len(text.split()) <= 16]


def test_english_questions_are_marked(corpus: dict[str, list[Row]]) -> None:
    """The three sides agree on being a question."""
    for name in SPLITS:
        for en, it, zh in corpus[name]:
            assert en.endswith("?") == it.endswith("?") or en.startswith("Can you repeat")
            assert it.endswith("?") == zh.endswith("？"), (en, it, zh)


def test_italian_articles_are_elided_before_vowels_only(corpus: dict[str, list[Row]]) -> None:
    """Articles and determiners elide before a vowel, and only there."""
    italian = _column(corpus, "it")
    assert not _matches(
        rf"\b(?:lo|la|una|il|quello|quella|bello|bella|dello|della|nella|sulla|alla|dalla) [{VOWELS}]",
        [text for text in italian if not re.search(r"\b(?:lo|la) (?:aiut|asp|am)|l'una e\b", text, re.IGNORECASE)],
    )
    assert not _matches(rf"\b(?:i|dei|ai|nei|sui|dai|quei|bei) [{VOWELS}]", italian)
    assert not _matches(rf"\b(?:l|un|dell|all|nell|sull|dall|quell|quest)'(?!8|11)[^{VOWELS}]", italian)
    assert not _matches(
        rf"\b(?:questo|questa) [{VOWELS}](?!n (?:italiano|cinese))", _matches(r"\bquest[oa] (?!è)", italian)
    )
    assert not _matches(r"\bci è\b|\bdove è\b|\bche cosa è\b(?! successo)", italian)
    elided = {noun.lower() for text in italian for noun in re.findall(r"\b[Uu]n'([\w-]+)", text)}
    assert elided <= FEMININE_VOWEL_NOUNS
    assert not _matches(rf"\bun (?:{'|'.join(FEMININE_VOWEL_NOUNS)})\b", italian)


def test_italian_lo_precedes_impure_s_only(corpus: dict[str, list[Row]]) -> None:
    """Lo, gli and uno occur before impure s, z, gn, ps; il, i and un elsewhere."""
    italian = _column(corpus, "it")
    assert not _matches(
        rf"\b(?:il|un|i|del|al|nel|sul|dal|quel|bel|dei|ai|nei|sui|dai|quei|bei|buon) {LO_START}", italian
    )
    assert not _matches(rf"\b(?:uno|dello|allo|nello|sullo|quello) (?!{LO_START})", italian)
    assert not _matches(rf"\b(?:gli|degli|agli|negli|sugli|quegli|begli) (?![{VOWELS}]|{LO_START}|piac|si\b)", italian)


def test_italian_prepositions_merge_with_articles(corpus: dict[str, list[Row]]) -> None:
    """Di, a, da, in and su merge with the definite article."""
    italian = _column(corpus, "it")
    assert not _matches(r"\b(?:di|a|da|in|su) (?:il|lo|la|i|gli|le)\b", italian)
    assert not _matches(r"\b(?:di|a|da|in|su) l'", italian)
    assert not _matches(r"\b(?:a [aA]|e [eE])", italian)


def test_only_tens_are_elided_before_anni(corpus: dict[str, list[Row]]) -> None:
    """Only whole tens elide before anni."""
    tens = "vent|trent|quarant|cinquant|sessant|settant|ottant|novant"
    elided = _matches(r"'anni\b", _column(corpus, "it"))
    assert elided
    assert not [text for text in elided if not re.search(rf"\b(?:{tens})'anni\b", text)]


def test_italian_participles_agree_with_their_subjects(corpus: dict[str, list[Row]]) -> None:
    """Singular relatives take no article, and essere participles agree with named subjects."""
    italian = _column(corpus, "it")
    relatives = "padre|madre|fratello|sorella|figlio|figlia|nonno|nonna|zio|zia|moglie|marito"
    assert not _matches(rf"\b(?:il|la|del|della|al|alla) (?:mi|tu)[oa] (?:{relatives})\b", italian)
    assert not _matches(r"^(?:[^,]* )?(?:Anna|Maria|Giulia|Laura|Sara|Elena|lei) è (?!molto)\w+[tsr]o\b", italian)
    assert not _matches(r"^(?:Marco|Luca|Paolo|Giovanni|Davide|Pietro|lui) è (?!\w+ista)\w+[ts]a\b", italian)
    assert not _matches(r"\bnon\b[^,]*\bnon\b", [text for text in italian if "," not in text and "perché" not in text])


def test_chinese_sentences_have_han_characters_and_full_width_marks_only(corpus: dict[str, list[Row]]) -> None:
    """Chinese has only Han characters and full-width marks, and ends with one."""
    chinese = _column(corpus, "zh")
    assert not [text for text in chinese if not re.fullmatch(r"[\u4e00-\u9fff]+(?:，[\u4e00-\u9fff]+)*[。？！]", text)]


def test_chinese_sentences_follow_the_grammar(corpus: dict[str, list[Row]]) -> None:
    """Measure words, negation, aspect and degree follow the rules."""
    chinese = _column(corpus, "zh")
    assert not _matches(
        "(?<![十百])二[个只本张把件条顶辆家座杯瓶岁点年]", [text for text in chinese if "月" not in text]
    )
    assert not _matches("不有|没是|没不|不没|了了|的的|吗吗", chinese)
    assert not _matches("没[^，没有]*了[^，]*。", [text for text in chinese if "，" not in text and "还没" not in text])
    assert not _matches("是很|是非常", chinese)
    assert not _matches("[两三四五六七八九十][个位名][^他她我你]{1,2}们", chinese)
    assert not _matches("(?:什么|谁|哪里|几点|为什么|怎么).*吗？", chinese)
