"""Sentences that two texts have in common."""

from nmt.text.corpus import SentencePair
from nmt.text.preparing.overlap import OverlapCounter


def test_translation_decides_how_overlaps_are_described() -> None:
    counter = OverlapCounter("test", "training", [SentencePair("Yes.", "Sì."), SentencePair("No.", "No.")])
    counter.add("Yes.", "是的。")
    assert str(counter.overlap()) == (
        "1 of 2 test sentences (50.0%) are also in the training text, 0 of them with the same translation; scores on "
        "them may be too good:\n  Yes."
    )
    counter.add("Yes.", "Sì.")
    assert "1 of them with the same translation; scores on them are too good. Remove them" in str(counter.overlap())
