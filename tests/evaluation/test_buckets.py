"""Groups of lines by length and by their rarest word."""

from collections import Counter

from nmt.evaluation.buckets import content_buckets, length_buckets, rarity_buckets
from nmt.text.glossary import Glossary


def test_lines_are_grouped_by_their_number_of_words() -> None:
    lines = ["one", "", "a " * 5, "a " * 6, "a " * 60, "a " * 61, "猫在睡觉。"]
    assert [(bucket.name, bucket.lines) for bucket in length_buckets(lines)] == [
        ("1–5", (0, 1, 2, 6)),
        ("6–10", (3,)),
        ("41–60", (4,)),
        ("> 60", (5,)),
    ]


def test_lines_are_grouped_by_the_frequency_of_their_rarest_word() -> None:
    frequencies = Counter({"the": 5000, "cat": 50, "sat": 9, "mat": 1})
    lines = ["The cat", "The mat", "the SAT", "the dog", "the", "the cat sat"]
    assert [(bucket.name, bucket.lines) for bucket in rarity_buckets(lines, frequencies)] == [
        ("0", (3,)),
        ("1", (1,)),
        ("2–9", (2, 5)),
        ("10–99", (0,)),
        ("≥ 1000", (4,)),
    ]


def test_lines_are_grouped_by_content() -> None:
    lines = [
        "He met Tom.",
        "Room 12",
        'I saw "Anna" and I left',
        "See {file} at 9.",
        "The end. It rains.",
        "",
        "我见到Tom。",
    ]
    groups = [(bucket.name, bucket.lines) for bucket in content_buckets(lines, Glossary({"room": "stanza"}))]
    assert groups == [
        ("numbers", (1, 3)),
        ("names", (0,)),
        ("placeholders, tags and URLs", (3,)),
        ("glossary terms", (1,)),
    ]
    assert content_buckets(["no content"]) == []
