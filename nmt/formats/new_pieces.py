"""Add pieces to the vocabulary of a trained model, for text that its tokenizer splits into many pieces.

The rows of a new piece begin as the mean of the rows of the pieces that spell it (Gee et al. 2022, "Fast Vocabulary
Transfer for Language Model Compression"). Its logit is the mean of their logits, so that greedy search does not
generate it before it is trained, unless it is a copy of `<unk>`. Text that contains no new piece is encoded as before.
"""

import io
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import sentencepiece
import torch

from nmt.formats.sentencepiece_file import pieces_of, type_of, with_pieces
from nmt.model.checkpoint import TorchModel
from nmt.model.transformer import Transformer
from nmt.text.tokenizer import SPACE_MARK, Tokenizer, Tokenizers

_FIRST = 0x10000  # the character that stands for id 0; a million follow


@torch.no_grad()
def with_new_pieces(loaded: TorchModel, source: Sequence[str], target: Sequence[str], number: int) -> TorchModel:
    """Return a model with new pieces of source and target lines, at most `number` for each tokenizer."""
    old, settings = loaded.tokenizers, loaded.settings
    sides, texts = ([old.source], [[*source, *target]]) if old.shared else ([old.source, old.target], [source, target])
    used = [new_pieces(side, text, number) for side, text in zip(sides, texts, strict=True)]
    # one vocabulary may have two tokenizers, as Marian has: both have all pieces, but use only their own
    added = [used[0] | used[-1]] * len(used) if settings.tied_embeddings == "all" else used
    extended = [with_pieces(*arguments) for arguments in zip(sides, added, used, strict=True)]
    model = Transformer(settings, len(extended[0]), len(extended[-1]), initialized=False).eval()
    before = dict(loaded.model.named_parameters())
    for name, weight in model.named_parameters():
        weight.zero_()
        weight[: len(before[name])] = before[name]
        if name.startswith(("source_embedding.tokens", "target_embedding.tokens", "output")):
            side = 0 if name.startswith("source") else -1
            for row, spelling in enumerate(added[side].values(), start=len(sides[side])):
                weight[row] = before[name][spelling].mean(0)
    return replace(loaded, in_torch=model, tokenizers=Tokenizers(extended[0], extended[-1]))


def new_pieces(tokenizer: Tokenizer, lines: Sequence[str], number: int) -> dict[str, list[int]]:
    """Return at most `number` pieces that a tokenizer lacks, and the ids that spell each.

    These are the most frequent characters without a piece (words, if it has only words), then, for types unigram and
    bpe, frequent sequences of pieces in words of letters. To find them, SentencePiece is trained on words in which one
    character stands for each piece, so that the merges of bpe start from pieces.
    """
    kind, unknown = type_of(tokenizer.to_bytes()), Counter[str]()
    for line in lines:
        text = b"".join(part for _, part in tokenizer.without_piece(line)).decode().replace(SPACE_MARK, " ").split()
        unknown.update([SPACE_MARK + word for word in text] if kind == "word" else "".join(text))
    frequent = [symbol for symbol, count in unknown.most_common(number) if count > 1]
    ids_of = {symbol: [i for i, _ in tokenizer.without_piece(symbol.lstrip(SPACE_MARK))] for symbol in frequent}
    characters = []
    for i, symbol in enumerate(tokenizer.symbols):
        is_of_letters = all(unicodedata.category(sign)[0] in "LM" for sign in symbol.replace(SPACE_MARK, ""))
        space = " " if symbol.startswith(SPACE_MARK) else ""
        characters.append(f"{space}{chr(_FIRST + i)}" if is_of_letters else " ")
    encoded = ("".join(characters[i] for i in tokenizer.encode(line)) for line in lines)
    words = [word for line in encoded for word in line.split() if len(word) > 1]
    if words and kind in ("unigram", "bpe"):
        size, model = len({*"".join(words)}) + 3 + number - len(ids_of), io.BytesIO()  # 3 are special symbols
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(words), model_writer=model, model_type=kind, vocab_size=size, minloglevel=2,
            hard_vocab_limit=False, character_coverage=1.0, normalization_rule_name="identity", add_dummy_prefix=False,
            split_by_unicode_script=False, split_by_number=False,
        )  # fmt: skip
        for piece, _, _ in pieces_of(model.getvalue()):
            ids = [ord(character) - _FIRST for character in piece]
            if min(ids) >= 0 and len({*ids}) > 1:  # the mean of repeated rows would be as probable as one
                ids_of.setdefault("".join(tokenizer.symbols[i] for i in ids), ids)
    known = {*tokenizer.symbols}
    return {symbol: ids for symbol, ids in ids_of.items() if symbol not in known}
