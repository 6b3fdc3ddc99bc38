"""Differences in content of given translations: items, accelerators, numbers."""

import pytest

from nmt.text.content import accelerators, content_diff, lost_numbers, without_items

ITEMS = ["{0}", "{ -brand }", "%s", "%1$d", "$name", "&amp;", "<b>", "</b>", '<a href="{ $url }">', "a@b.org", "😀"]


@pytest.mark.parametrize("item", ITEMS)
def test_missing_and_surplus_items_by_hand(item: str) -> None:
    assert content_diff(f"a {item} b {item} c", f"x {item} y").missing == (item,)
    assert content_diff(f"a {item} b", f"x {item} y {item}").surplus == (item,)
    assert content_diff(f"a '{item}' b", f"“{item}”. x") == ((), ())
    assert without_items(f"a {item} b") == "a   b"


@pytest.mark.parametrize(
    ("source", "text", "missing", "surplus"),
    [
        ("&File", "&Datei", (), ()),
        ("&File", "文件(&F)", (), ()),
        ("C&opy, E&xit", "复制(&O)、退出(&X)", (), ()),
        ("复制(&O)", "C&opy", (), ()),
        ("Save &as… (R&D, A && B, &amp;)", "Salva come (R&D, A && B, &amp;)", ("&",), ()),
        (r"One\ntwo\t", r"Uno\n due", ("\\t",), ()),
        ("Run `git log`.", "Esegui questo.", ("`git log`",), ()),
        ("{n, plural, one {# file} other {# files}}", "{n, plural, other {# 个文件}}", (), ()),
        ("See :ref:`the text <a>`, {n}%", "Vedi :ref:`il testo <a>`, {n} %", (), ()),
        ("See https://b.org/w/中 for", "见https://b.org/w/中的", (), ()),
        ("1) Open {0}.", "1）打开 {0}。", (), ()),
        ("1. Open [b]it[/b].", "1、打开。", ("b", "/b"), ()),
        ("See :ref:`a`, -{n}", "Vedi `a`, {n}", (":ref:",), ()),
        ("{n, plural, one {# file} other {# files}}", "# file", ("{n, plural,",), ()),
    ],
)
def test_accelerators_escapes_code_and_arguments_are_compared(
    source: str, text: str, missing: tuple[str, ...], surplus: tuple[str, ...]
) -> None:
    assert content_diff(source, text) == (missing, surplus)
    assert accelerators(source, source) == ((), ())


@pytest.mark.parametrize(
    ("source", "text", "lost"),
    [
        ("It cost 1,000.50 in 1984", "Costava 1.000,50 nel 1984", []),
        ("130 dogs, 130 cats", "130 cani", ["130"]),
        ("13 dogs at 10:30", "tredici cani", []),
        ("{150} and https://x.org/990", "nulla", []),
        ("agents 007 and 00013, 0", "agenti", []),
        ("7" * 100_000, "sette", ["7" * 100_000]),  # more digits than Python converts to an integer
        ("1," * 100_000, "x", ["1," * 99_999 + "1"]),
        ("$300.00", "300美元", []),
        ("55,000 fans", "55 000 tifosi", []),
        ("12306网站", "the site 12306", []),
        # magnitudes and numerals, on either side
        ("1.5 million", "150万", []),
        ("200亿元", "20 billion yuan", []),
        ("in 1984 200 people", "nel 1984 duecento persone", []),
        ("in 1984", "一九八四年", []),
        ("at 10:00 in the centre", "in centro", []),
        ("In the 1970s, of 1,000", "Negli anni '70", []),
        ("2010年代的纽约", "New York in the ’10s", []),
        ("a Milan, 1984", "in Milan", ["1984"]),
        ("After 30s, 5000", "Dopo 30 s", ["5000"]),
    ],
)
def test_lost_numbers_of_examples(source: str, text: str, lost: list[str]) -> None:
    assert lost_numbers(source, text) == lost
