"""Sentences that two texts have in common."""

from nmt.text.corpus import SentencePair
from nmt.text.filters import HeldOutText
from nmt.text.preparing.overlap import Overlap


def test_translation_decides_how_overlaps_are_described() -> None:
    text = HeldOutText("test", [SentencePair("Yes.", "Sì."), SentencePair("No.", "No.")])
    other = [("Yes.", "是的。")]
    assert str(Overlap.of(text, "training", other)) == (
        "1 of 2 test sentences (50.0%) are also in the training text, 0 of them with the same translation; scores on "
        "them may be too good:\n  Yes."
    )
    described = str(Overlap.of(text, "training", [*other, ("Yes.", "Sì.")]))
    assert "1 of them with the same translation; scores on them are too good. Remove them" in described
