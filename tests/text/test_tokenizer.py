"""Tokenizer: round trip, special symbols in text, reproducible training, and errors."""

import io
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.config import TokenizerSettings
from nmt.errors import ConfigError, DataError, ModelError
from nmt.text.normalize import normalize
from nmt.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, Tokenizers, proposed_size
from tests.builders import demo_pairs
from tests.time_limit import seconds_of_the_processor

SYMBOLS = ["<s>", "</s>", "<pad>", "<unk>", "<0x41>", "<back>", "▁", "▁▁ a", "▅", "⁇", "\ufdd0", "a ▁ b", "<s>x</s>"]
SENTENCES = [side for pair in demo_pairs(200) for side in pair]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    chosen = TokenizerSettings(vocab_size=350, type=request.param, symbols=("{0}", "<b>", "</b>", "12"))
    marked = ["the cat {0} sleeps on <b>the mat</b> in 1984 .", "{0} 12 and 34", "x{0}y 5678 in 1984"]
    return Tokenizer.train([*SENTENCES, *SYMBOLS * 5, *marked * 30], chosen, tags=["back"])


@given(st.text(st.characters(exclude_categories=())))
@example("▁")
@example("a\u0300\u200b\u0301")
@settings(max_examples=300, deadline=None)
def test_decode_inverts_encode(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == normalize(text)


@given(st.lists(st.text(max_size=20).map(normalize), max_size=5))
@settings(deadline=None)
def test_lines_of_a_batch_are_encoded_as_alone(tokenizer: Tokenizer, lines: list[str]) -> None:
    lines = [*lines, "gatto ▁ vede", ""]
    assert tokenizer.encode_lines(lines) == [tokenizer.encode(line) for line in lines]


@given(
    st.lists(
        st.sampled_from([*SYMBOLS, "{0}", "<b>", "</b>", "12", "{", "0}", "cat", " ", "，", "\0", "\n", "e", "\u0301"])
    ).map("".join)
)
@settings(deadline=None)
def test_symbols_in_text_are_text_and_protected_ones_one_piece(tokenizer: Tokenizer, text: str) -> None:
    ids, pattern = tokenizer.encode(text), r"\{0\}|</?b>|12"
    assert tokenizer.decode(ids) == normalize(text)
    assert min(ids, default=9) > EOS
    assert tokenizer.tag_ids(["back"])[0] not in ids
    found = [tokenizer.pieces[i] for i in ids if re.search(pattern, tokenizer.pieces[i])]
    assert found == re.findall(pattern, normalize(text))
    assert b"".join(tokenizer.spell_text(text)).decode().strip() == normalize(text)


@given(st.data())
@settings(deadline=None)
def test_decoding_any_ids_gives_one_clean_line(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1)))
    text = tokenizer.decode(ids)
    assert text == normalize(text)
    assert "\n" not in text


def test_layout_of_the_vocabulary(tokenizer: Tokenizer) -> None:
    assert tokenizer.pieces[:9] == ["<pad>", "<unk>", "<s>", "</s>", "<back>", "{0}", "<b>", "</b>", "12"]
    assert len(tokenizer.pieces) == len(tokenizer) == 350
    assert tokenizer.encode("") == tokenizer.encode(" \u2028\0") == []
    ids = tokenizer.encode("gatto vede")
    for encoded in ([BOS, tokenizer.tag_ids(["back"])[0], *ids, UNK, EOS, PAD], np.array(ids, dtype=np.uint16)):
        assert tokenizer.decode(encoded) == "gatto vede"
    for tag in ("forward", "s", "unk", "pad"):
        with pytest.raises(ModelError, match=f"has no tag '{tag}'"):
            tokenizer.tag_ids([tag])


def test_spelled_counts_the_characters_without_a_piece(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("gatto ß€😀 gatto")
    assert tokenizer.spelled()[ids].sum() == 3


@pytest.mark.parametrize("text", ["a" * 100_000, "the cat " * 12_500, "茶" * 100_000, "😀" * 100_000, "<s>" * 33_000])
def test_long_lines_are_encoded_in_linear_time(tokenizer: Tokenizer, text: str) -> None:
    with seconds_of_the_processor(5):
        assert tokenizer.decode(tokenizer.encode(text)) == normalize(text)


def test_training_is_reproducible(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = (Tokenizer.train(SENTENCES, TokenizerSettings(vocab_size=330)).to_bytes() for _ in range(2))
    assert first == second
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("size", [100, 20_000])
def test_impossible_size_names_a_bound_that_works(kind: str, size: int) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size: found (100|20000), but") as caught:
        Tokenizer.train(SENTENCES, TokenizerSettings.model_validate({"vocab_size": size, "type": kind}))
    bound = int(re.findall(r"set tokenizer\.vocab_size to auto, or to (\d+) or (?:less|more)", str(caught.value))[0])
    found = Tokenizer.train(SENTENCES, TokenizerSettings.model_validate({"vocab_size": bound, "type": kind}))
    assert len(found) == bound
    beyond = bound + 1 if size > bound else bound - 1
    with pytest.raises(ConfigError):
        Tokenizer.train(SENTENCES, TokenizerSettings.model_validate({"vocab_size": beyond, "type": kind}))


@pytest.fixture(
    scope="module",
    params=[("word", False), ("word", True), ("char", False), ("char", True), ("unigram", True), ("bpe", True)],
    ids=str,
)
def other(request: pytest.FixtureRequest) -> tuple[Tokenizer, TokenizerSettings]:
    """A tokenizer of words, of characters, or of small letters, written and read again."""
    kind, lowercase = request.param
    chosen = TokenizerSettings(vocab_size=340, type=kind, lowercase=lowercase)
    return Tokenizer.from_bytes(Tokenizer.train(SENTENCES, chosen, at_most=True).to_bytes()), chosen


@given(st.one_of(st.text(), st.lists(st.sampled_from([*SYMBOLS, *SENTENCES[:9], "ÉMILE", "xyzzy"])).map(" ".join)))
@example("İstanbul ẞ")
@settings(max_examples=100, deadline=None)
def test_no_type_loses_text(other: tuple[Tokenizer, TokenizerSettings], text: str) -> None:
    """Words and characters without a piece are spelled in bytes; `lowercase` is that of each character."""
    tokenizer, chosen = other
    expected = normalize(text)
    if chosen.lowercase:
        expected = normalize("".join(character.lower() for character in expected))
    assert tokenizer.decode(tokenizer.encode(text)) == expected
    assert normalize(b"".join(tokenizer.spell_text(text)).decode()) == expected
    assert tokenizer.has_words_only == (chosen.type == "word")
    if chosen.type == "char":
        assert {len(piece) for piece in tokenizer.pieces[260:]} == {1}


@pytest.mark.parametrize("lowercase", [False, True])
def test_pieces_of_words_are_those_of_at_least_the_given_frequency(lowercase: bool) -> None:
    text = [*SENTENCES, "rare rare RARE", "once"]
    counts = Counter(word.lower() if lowercase else word for line in text for word in normalize(line).split())
    chosen = TokenizerSettings(vocab_size=5000, type="word", min_frequency=3, lowercase=lowercase)
    pieces = Tokenizer.train(text, chosen).pieces
    assert sorted(pieces[260:]) == sorted(f"▁{word}" for word, count in counts.items() if count >= 3)
    assert ("▁rare" in pieces) == lowercase


def test_training_without_text_raises() -> None:
    for line in (" \0", "word " * 2000):
        with pytest.raises(DataError, match="every line is empty or longer than 4192 bytes; put one sentence per line"):
            Tokenizer.train(["", line], TokenizerSettings(vocab_size=300))
    with pytest.raises(ConfigError, match="min_frequency: no word of the text occurs 9,000 times; set it lower"):
        Tokenizer.train(SENTENCES, TokenizerSettings(vocab_size=300, type="word", min_frequency=9000))


def test_absent_or_damaged_tokenizer_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"{tmp_path}: no tokenizer"):
        Tokenizers.load(tmp_path)
    for content in (b"", b"not a model", tokenizer.to_bytes()[:-7]):
        (tmp_path / "tokenizer.model").write_bytes(content)
        with pytest.raises(ModelError, match=r"tokenizer\.model: not a SentencePiece model, or a damaged one"):
            Tokenizers.load(tmp_path)


def test_tokenizer_of_another_program_is_refused() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=70, minloglevel=2
    )
    with pytest.raises(ModelError, match=r"have the ids \(-1, 0, 1, 2\), expected \(0, 1, 2, 3\)"):
        Tokenizer.from_bytes(model.getvalue())


def test_size_is_the_symbols_the_alphabet_and_the_root_of_the_text() -> None:
    counts = Counter("ababab c")
    assert proposed_size(8, counts, TokenizerSettings()) == 4 + 256 + 4 + round(1.8 * math.sqrt(8))
    assert proposed_size(8, counts, TokenizerSettings(), tags=2) == 4 + 2 + 256 + 4 + round(1.8 * math.sqrt(8))


def test_rare_characters_beyond_the_coverage_are_not_in_the_alphabet() -> None:
    for frequent, alphabet in ((9_998, 2), (9_999, 1), (9_980, 2)):
        counts = Counter({"a": frequent, "b": 10_000 - frequent})
        assert proposed_size(0, counts, TokenizerSettings()) == 4 + 256 + alphabet


@pytest.mark.parametrize(
    ("pairs", "characters_a_pair", "alphabet", "low", "high"),
    [
        (500, 60, 70, 500, 1000),
        (5_000, 220, 80, 2_000, 2_500),  # 2,000: Sennrich & Zhang 2019
        (24_000, 40, 2_700, 4_500, 5_500),  # 5,000: recipes/tatoeba-en-zh-cpu.yaml
        (306_000, 63, 90, 7_500, 9_000),  # 8,000: recipes/tatoeba-en-it-cpu.yaml
        (5_000_000, 250, 300, 32_000, 32_000),  # the bound
    ],
)
def test_size_for_corpora_of_all_sizes(pairs: int, characters_a_pair: int, alphabet: int, low: int, high: int) -> None:
    counts = Counter({chr(0x4E00 + number): 1000 for number in range(alphabet)})
    size = proposed_size(pairs * characters_a_pair, counts, TokenizerSettings())
    assert low <= size <= high
    assert size % 64 == 0
