"""Groups of lines by length."""

from nmt.evaluation.buckets import length_buckets


def test_lines_are_grouped_by_their_number_of_words() -> None:
    lines = ["one", "", "a " * 5, "a " * 6, "a " * 60, "a " * 61, "猫在睡觉。"]
    assert [(bucket.name, bucket.lines) for bucket in length_buckets(lines)] == [
        ("1–5", (0, 1, 2, 6)),
        ("6–10", (3,)),
        ("41–60", (4,)),
        ("> 60", (5,)),
    ]
