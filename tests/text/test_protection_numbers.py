"""Numbers lost in translation: digits, separators, magnitudes and numerals."""

import pytest

from nmt.text.protection import lost_numbers


@pytest.mark.parametrize(
    ("source", "text", "lost"),
    [
        ("It cost 1,000.50 in 1984", "Costava 1.000,50 nel 1984", []),
        ("3.14", "3,14", []),
        ("130 dogs, 130 cats", "130 cani", ["130"]),
        ("13 dogs at 10:30", "tredici cani", []),
        ("{150} and https://x.org/990", "nulla", []),
        ("in 1999", "nel 1998", ["1999"]),
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
