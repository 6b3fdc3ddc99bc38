"""The size of a text and a sample of its lines."""

import io
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
import sentencepiece

from nmt.text.corpus import SentencePair
from nmt.text.proposing.profile import TextProfile


def profile_of(pairs: Iterable[tuple[str, str]]) -> TextProfile:
    made = TextProfile()
    for line, (source, target) in enumerate(pairs, start=1):
        made.add(SentencePair(source, target, "", line))
    return made


def test_pairs_characters_and_empty_sides_are_counted() -> None:
    made = profile_of([("ab", "cde"), ("", "x"), ("y", " "), ("f", "g")])
    assert (made.pairs, made.empty, made.characters) == (4, 2, [3, 4])
    assert made.sample == [SentencePair("ab", "cde"), SentencePair("f", "g")]


def test_sample_is_spread_over_the_text_and_bounded() -> None:
    made = profile_of((f"{number}", "x" * 5000) for number in range(1, 50_001))
    numbers = [int(pair.source) for pair in made.sample]
    assert 5_000 <= len(numbers) < 10_000
    assert {after - before for before, after in pairwise(numbers)} == {8}
    assert [pair.line for pair in made.sample] == numbers
    assert max(len(pair.target) for pair in made.sample) == 1000


@pytest.mark.parametrize("columns", [(0, 1), (0, 2)], ids=["en-it", "en-zh"])
def test_estimated_tokens_are_near_those_of_a_tokenizer(repository: Path, columns: tuple[int, int]) -> None:
    rows = (repository / "data" / "demo" / "train.tsv").read_text(encoding="utf-8").splitlines()[:4000]
    pairs = [[row.split("\t")[column] for column in columns] for row in rows]
    vocabulary, estimates = profile_of([(source, target) for source, target in pairs]).tokens()
    size, model = min(vocabulary, 1500), io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(side for pair in pairs for side in pair), model_writer=model, vocab_size=size,
        byte_fallback=True, character_coverage=0.9999, minloglevel=2, num_threads=1,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for side, estimate in enumerate(estimates):
        counted = sum(len(ids) + 1 for ids in processor.encode([pair[side] for pair in pairs]))
        assert estimate == pytest.approx(counted, rel=0.5), (side, size)
