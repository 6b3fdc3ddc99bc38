"""The size of a text and a sample of its lines."""

import io
from pathlib import Path

import pytest
import sentencepiece

from nmt.text.proposing.proposal import TextProfile
from nmt.text.readers import SentencePair


def test_pairs_characters_and_empty_sides_are_counted() -> None:
    made = TextProfile()
    pairs = [SentencePair(*pair) for pair in (("ab", "cde"), ("", "x"), ("y", " "), ("f", "g"))]
    assert list(made.counted(pairs)) == [pairs[0], pairs[3]]
    assert (made.pairs, made.empty, made.characters) == (4, 2, [3, 4])


@pytest.mark.parametrize("columns", [(0, 1), (0, 2)], ids=["en-it", "en-zh"])
def test_estimated_tokens_are_near_those_of_a_tokenizer(repository: Path, columns: tuple[int, int]) -> None:
    rows = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()[:4000]
    pairs = [[row.split("\t")[column] for column in columns] for row in rows]
    made = TextProfile()
    made.sample = list(made.counted(SentencePair(source, target) for source, target in pairs))
    vocabulary, estimates = made.tokens()
    size, model = min(vocabulary, 1500), io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(side for pair in pairs for side in pair), model_writer=model, vocab_size=size,
        byte_fallback=True, character_coverage=0.9999, minloglevel=2, num_threads=1,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for side, estimate in enumerate(estimates):
        counted = sum(len(ids) + 1 for ids in processor.encode([pair[side] for pair in pairs]))
        assert estimate == pytest.approx(counted, rel=0.5), (side, size)
