"""Numbers lost in translation: digits, separators, numerals, words and magnitudes of several languages."""

import pytest

from nmt.text.numerals import lost_numbers


@pytest.mark.parametrize(
    ("source", "text", "lost"),
    [
        ("It cost 1,000.50 in 1984", "Costava 1.000,50 nel 1984", []),
        ("3.14", "3,14", []),
        ("2 dogs and 12 cats", "due cani e dodici gatti", []),
        ("13 dogs, 13 cats", "13 cani", ["13"]),
        ("the 21st at 10:30", "il 21 alle 10.30", []),
        ("{15} and https://x.org/99", "nulla", []),
        ("in 1999", "nel 1998", ["1999"]),
        ("agents 007 and 00013, 0", "agenti", ["00013"]),
        ("7" * 100_000, "sette", ["7" * 100_000]),  # more digits than Python converts to an integer
        ("0" * 100_000, "zero", []),
        ("7" * 100_000 + " of 15 million", "9" * 100_000, ["7" * 100_000, "15"]),
        ("1." * 100_000 + " of 15 million", "十" * 100_000, ["1." * 99_999 + "1", "15"]),
        # the same number in other words
        ("20 cats", "二十只猫", []),
        ("20 cats", "三十只猫", ["20"]),
        ("1.5 million", "150万", []),
        ("1.5 million people, 1,845.2 million yuan", "一百五十万人，18.452亿元", []),
        ("54 million", "5 千 4 百萬", []),
        ("60 million and 520 million", "6000多万和五点二亿", []),
        ("1,500,000", "1,5 milioni", []),
        ("1.5 million", "1.500.000", []),
        ("the 1970s", "gli anni '70, 70年代", []),
        ("the 20th century", "il XX secolo", []),
        ("30 years", "trent'anni", []),
        ("trenta anni, 40", "thirty years, forty", []),
        ("at 2:30", "alle due e mezza", []),
        ("$3.00", "3美元", []),
        ("100,000 people", "10 万人", []),
        ("55,000 fans", "55 000 tifosi", []),
        ("in 1984 200 people", "nel 1984 duecento persone", []),
        ("12306网站", "the site 12306", []),
        # the same digits with another magnitude
        ("20 billion", "200亿", []),
        ("20 billion", "20亿", ["20"]),
        ("1.5 million", "15万", ["1.5"]),
        ("150万", "15 thousand", ["150"]),
        ("20 billion in 20 years", "20年来的200亿", []),
    ],
)
def test_lost_numbers_of_examples(source: str, text: str, lost: list[str]) -> None:
    assert lost_numbers(source, text) == lost
