"""Encoding word by word: equal to SentencePiece, whatever the text and the tokenizer."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import TokenizerSettings
from nmt.text import word_encoding
from nmt.text.normalize import normalize
from nmt.text.tokenizer import Tokenizer
from nmt.text.word_encoding import WordEncoder

WORDS = [
    "the",
    "houses",
    "la",
    "casa,",
    "casa",
    "aaa",
    "aaaaa",
    "000.000",
    "abab",
    "1.000",
    "<x>",
    "🙂",
    "茶",
    "茶茶a",
    "a" * 41,
    "▁",
]
SENTENCES = st.lists(
    st.lists(st.sampled_from(WORDS) | st.text("abà1.", max_size=8), max_size=12).map(" ".join), max_size=8
)


def trained(vocab_size: int = 300, **options: Any) -> Tokenizer:
    choose = random.Random(1)
    syllables = ["ca", "sa", "hou", "se", "s", "la", "the", "a", "b", "ab", "ba", "00", "1", ".", ",", "0"]
    words = ["".join(choose.choices(syllables, k=choose.randint(1, 4))) for _ in range(200)]
    lines = [" ".join(choose.choices(words, k=8)) for _ in range(500)]
    return Tokenizer.train(lines, TokenizerSettings(vocab_size=vocab_size, **options))


TOKENIZERS = {
    "unigram": trained(),
    "bpe": trained(type="bpe"),
    "symbols": trained(symbols=("<x>",)),
}


def separately(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[list[int]]:
    if sentences == [""]:
        return [[]]  # a text without bytes has no lines
    ids, lengths = tokenizer.encode_lines("\n".join(sentences).encode(), threads=1)
    assert ids.dtype == np.int32
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if sentences else []


@pytest.mark.parametrize("name", TOKENIZERS)
@given(SENTENCES)
@settings(deadline=None, max_examples=150)
def test_batch_encoding_equals_single_encoding(name: str, sentences: list[str]) -> None:
    tokenizer, normalized = TOKENIZERS[name], list(map(normalize, sentences))
    for _ in range(2):  # with an empty cache, and with a full one
        assert separately(tokenizer, normalized) == [tokenizer.encode(sentence) for sentence in normalized]


def test_equal_segmentations_are_those_of_the_sentence() -> None:
    """`aa` + `aaa` and `aaa` + `aa` have the same score, which is rounded differently after other words."""
    tokenizer, choose = TOKENIZERS["unigram"], random.Random(2)
    repeated = [character * count for character in "ab01." for count in range(2, 12)]
    sentences = [" ".join(choose.choices([*repeated, "casa", "houses"], k=choose.randint(1, 150))) for _ in range(300)]
    assert separately(tokenizer, sentences) == [tokenizer.encode(sentence) for sentence in sentences]


def test_words_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = trained()
    processor = CountingProcessor(tokenizer)
    encoder = WordEncoder(processor, tokenizer.table.scores, frozenset(), merges=False)
    processor.sentences = 0
    for _ in range(3):
        encoder.encode(b"la casa the houses\n" * 50, threads=1)
    assert processor.sentences <= 4


def test_a_full_cache_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_encoding, "_MOST_WORDS", 5)
    tokenizer = trained()
    sentences = [f"casa{number} house{number}" for number in range(50)]
    encoded = [ids for start in range(0, 50, 5) for ids in separately(tokenizer, sentences[start : start + 5])]
    assert encoded == [tokenizer.encode(sentence) for sentence in sentences]


def test_more_words_than_are_stored_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of one block, and the words of a long sentence, which are not stored."""
    monkeypatch.setattr(word_encoding, "_MOST_WORDS", 5)
    tokenizer = trained()
    sentences = [*(f"casa{number} house{number}" for number in range(50)), "la casa " * 200 + "houses"]
    for _ in range(2):
        assert separately(tokenizer, sentences) == [tokenizer.encode(sentence) for sentence in sentences]


@pytest.mark.parametrize(
    "options",
    [
        {"add_dummy_prefix": False},
        {"treat_whitespace_as_suffix": True},
        {"split_by_whitespace": False},
        {"model_type": "word"},
    ],
)
def test_other_tokenizers_encode_whole_sentences(options: dict[str, Any], tmp_path: Any) -> None:
    """A model may begin from one that another program trained."""
    lines = ["la casa the houses", "the casa la houses casa", "houses la a the the"] * 50
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(tmp_path / "other"), vocab_size=30, pad_id=0, unk_id=1,
        bos_id=2, eos_id=3, minloglevel=2, hard_vocab_limit=False, **options,
    )  # fmt: skip
    tokenizer = Tokenizer.from_bytes((tmp_path / "other.model").read_bytes())
    encoded = [*lines[:9], "la zoo zebra the", "zoo"]
    assert separately(tokenizer, encoded) == [tokenizer.encode(line) for line in encoded]


class CountingProcessor:
    """A processor that counts the sentences and words that it encodes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(tokenizer.to_bytes())
        self.sentences = 0

    def encode(self, text: str | list[str], **options: Any) -> Any:
        self.sentences += 1 if isinstance(text, str) else len(text)
        return self._processor.encode(text, **options)

    def nbest_encode(self, text: list[str], **options: Any) -> Any:
        self.sentences += len(text)
        return self._processor.nbest_encode(text, **options)

    def id_to_piece(self, index: int) -> str:
        return str(self._processor.id_to_piece(index))
