"""The size of a text and a sample of its lines."""

import io
from pathlib import Path

import pytest
import sentencepiece

from nmt.text.corpus import SentencePair
from nmt.text.proposing import profile
from nmt.text.proposing.profile import TextProfile


def test_pairs_characters_and_empty_sides_are_counted() -> None:
    made = TextProfile(1)
    for pair in [("ab", "cde"), ("", "x"), ("y", " "), ("f", "g")]:
        made.add(SentencePair(*pair))
    assert (made.pairs, made.empty, made.characters) == (4, 2, (3, 4))
    assert [line.number for line in made.lines(0)] == [1, 4]
    assert [line.text for line in made.lines(1)] == ["cde", "g"]


def test_sample_is_spread_over_the_text_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "_SAMPLE", 200)
    made = TextProfile(1)
    for number in range(1, 10_001):
        made.add(SentencePair(f"{number}", "x" * 5000))
    lines = made.lines(0)
    assert len(lines) == 200
    assert all(line.text == str(line.number) for line in lines)
    assert 4000 < sum(line.number for line in lines) / 200 < 6000
    assert max(len(line.text) for line in made.lines(1)) == 1000


@pytest.mark.parametrize("columns", [(0, 1), (0, 2)], ids=["en-it", "en-zh"])
def test_estimated_tokens_are_near_those_of_a_tokenizer(repository: Path, columns: tuple[int, int]) -> None:
    rows = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()[:4000]
    pairs = [[row.split("\t")[column] for column in columns] for row in rows]
    made, model = TextProfile(1), io.BytesIO()
    for source, target in pairs:
        made.add(SentencePair(source, target))
    size = min(made.vocabulary(), 1500)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(side for pair in pairs for side in pair), model_writer=model, vocab_size=size,
        byte_fallback=True, character_coverage=0.9999, minloglevel=2, num_threads=1,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for side, estimate in enumerate(made.tokens()):
        counted = sum(len(ids) + 1 for ids in processor.encode([pair[side] for pair in pairs]))
        assert estimate == pytest.approx(counted, rel=0.5), (side, size)
