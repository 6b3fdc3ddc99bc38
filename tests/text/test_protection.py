"""Protected items of examples; properties of the repair of translations; numbers lost in translation."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.normalize import normalize
from nmt.text.protection import compare, compare_marks, items, lost_numbers, repair

ITEMS = ["{0}", "{ -brand }", "%s", "%1$d", "$name", "&amp;", "<b>", "</b>", '<a href="{ $url }">', "a@b.org"]
ITEMS += ["https://b.org/x?y=1&z=2", "{{count}}", "%(size)d", "${HOME}", "{0:X}"]
TEXTS = st.lists(st.sampled_from([*ITEMS, "la casa", ".", "è", "'", "（", "100 %", "5"])).map(" ".join)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Argument '{0}' cannot be of type '{1}'.", ["{0}", "{1}"]),
        ("<a { $url }>{ -brand-name } Support</a>", ["<a { $url }>", "{ -brand-name }", "</a>"]),
        ('See <a href="https://x.org">this</a>.', ['<a href="https://x.org">', "</a>"]),
        ("Go to https://x.org/a_(b).html, or www.y.it!", ["https://x.org/a_(b).html", "www.y.it"]),
        ("Mail a.b+c@d-e.co.uk.", ["a.b+c@d-e.co.uk"]),
        ("%s of %1$d, %.2f%%, %(name)s, %@", ["%s", "%1$d", "%.2f", "%(name)s", "%@"]),
        ("$name and ${name} cost $5", ["$name", "${name}"]),
        ("Salt &amp; pepper &#39; &#x27;", ["&amp;", "&#39;", "&#x27;"]),
        ("Save %1 of %2 in %L3, 100%1 and %20b", ["%1", "%2", "%L3"]),
        ("100% sure, 50%discount, 5 < 6 > 4, &File, a {curly remark} and {}", []),
    ],
)
def test_protected_items_of_examples(line: str, found: list[str]) -> None:
    assert [item.text for item in items(line)] == found
    for item in items(line):
        assert line[item.start : item.end] == item.text


@pytest.mark.parametrize(
    ("source", "text", "missing", "surplus"),
    [
        ("&File", "&Datei", (), ()),
        ("&File", "文件(&F)", (), ()),
        ("Save &as… (R&D, A && B, &amp;)", "Salva come (R&D, A && B, &amp;)", ("&",), ()),
        (r"One\ntwo\t", r"Uno\n due", ("\\t",), ()),
        (r"C:\new\temp", r"C:\new\temp", (), ()),
        ("Run `git log`.", "Esegui questo.", ("`git log`",), ()),
        ("Run `git log` in `x`.", "Esegui git log in `y`.", (), ()),
        ("{n, plural, one {# file} other {# files}}", "{n, plural, other {# 个文件}}", (), ()),
        ("{n, plural, one {# file} other {# files}}", "# file", ("{n, plural,",), ()),
    ],
)
def test_marks_are_compared(source: str, text: str, missing: tuple[str, ...], surplus: tuple[str, ...]) -> None:
    assert compare_marks(source, text) == (missing, surplus)


@pytest.mark.parametrize(
    "line", ["7" * 100_000, "a" * 50_000 + "@" + "b" * 50_000, "a@" * 50_000, "%" * 100_000, "<a" * 50_000]
)
def test_protected_items_take_linear_time(line: str) -> None:
    """Each of these texts takes minutes in quadratic time."""
    started = time.process_time()
    assert items(line) == []
    assert time.process_time() - started < 10


@pytest.mark.parametrize("item", ITEMS)
def test_missing_and_surplus_items_by_hand(item: str) -> None:
    assert compare(f"a {item} b {item} c", f"x {item} y").missing == (item,)
    assert compare(f"a {item} b", f"x {item} y {item}").surplus == (item,)
    assert compare(f"a {item} b", f"{item}. x") == ((), ())


@pytest.mark.parametrize(
    ("source", "text", "repaired"),
    [
        ("Open {name}.", "Apri { Name }.", "Apri {name}."),
        ("See https://x.org/a now", "Vedi https://x.org/abene", "Vedi https://x.org/a bene"),
        ("See https://x.org now", "Vedi HTTPS : //x.org ora", "Vedi https://x.org ora"),
        ("{0} files", "{0} {0} file", "{0} file"),
        ("<b>Stop</b> now", "<b> Alt </b> ora", "<b>Alt</b> ora"),
        ("Stop <b> now", "Alt <b> ora", "Alt <b> ora"),
        ("%s is full", "100 % sicuro", "100 % sicuro"),
        ("a word", "una {0} parola", "una {0} parola"),
        ("Go to <b>{0}</b> or {1}", "Vai a {1} o <b>{0}</b>", "Vai a {1} o <b>{0}</b>"),
    ],
)
def test_repair_of_examples(source: str, text: str, repaired: str) -> None:
    assert repair(source, text) == repaired


@given(source=TEXTS, text=TEXTS)
def test_repair_is_idempotent_and_adds_no_difference(source: str, text: str) -> None:
    before, repaired = compare(source, normalize(text)), repair(source, normalize(text))
    after = compare(source, repaired)
    assert not Counter(after.missing) - Counter(before.missing)
    assert not Counter(after.surplus) - Counter(before.surplus)
    assert repair(source, repaired) == repaired
    assert normalize(repaired) == repaired


@pytest.mark.parametrize(
    ("source", "text", "lost"),
    [
        ("It cost 1,000.50 in 1984", "Costava 1.000,50 nel 1984", []),
        ("130 dogs, 130 cats", "130 cani", ["130"]),
        ("13 dogs at 10:30", "tredici cani", []),
        ("{150} and https://x.org/990", "nulla", []),
        ("agents 007 and 00013, 0", "agenti", []),
        ("7" * 100_000, "sette", ["7" * 100_000]),  # more digits than Python converts to an integer
        ("1." * 100_000, "x", ["1." * 99_999 + "1"]),
        ("$300.00", "300美元", []),
        ("55,000 fans", "55 000 tifosi", []),
        ("12306网站", "the site 12306", []),
        # magnitudes and numerals, on either side
        ("1.5 million", "150万", []),
        ("200亿元", "20 billion yuan", []),
        ("in 1984 200 people", "nel 1984 duecento persone", []),
        ("in 1984", "一九八四年", []),
        ("at 10:00 in the centre", "in centro", []),
        ("a Milan, 1984", "in Milan", ["1984"]),
    ],
)
def test_lost_numbers_of_examples(source: str, text: str, lost: list[str]) -> None:
    assert lost_numbers(source, text) == lost
