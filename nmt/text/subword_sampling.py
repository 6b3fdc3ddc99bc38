"""Subword regularization: a random segmentation of a sentence at each reading, drawn by SentencePiece.

>>> sampler = SegmentationSampler(tokenizer, 0.1)
>>> tokenizer.decode(sampler.sample(tokenizer.encode("Come stai?"), seed=1))
'Come stai?'

A unigram tokenizer draws a segmentation x with probability in proportion to P(x)^α, among all there are (Kudo 2018,
"Subword Regularization", with l = ∞). A BPE tokenizer drops each possible merge with probability p; a dropped merge is
possible again only after a merge beside it (after Provilkov et al. 2020, "BPE-Dropout").
"""

from collections.abc import Sequence
from itertools import groupby

import sentencepiece

from nmt.text.tokenizer import UNK, Tokenizer

# Appended to a SentencePiece model, these fields replace those before: no space is added in front of a text
# (normalizer_spec.add_dummy_prefix), and none is removed (remove_extra_whitespaces).
_EXACT_SPACES = b"\x1a\x04\x18\x00\x20\x00"
_SEEDS = 2**32 - 1  # SentencePiece reserves the number 2**32 - 1 for "no seed"


class SegmentationSampler:
    """Samples segmentations. `amount` is α for a unigram tokenizer, the probability of a dropped merge for BPE."""

    def __init__(self, tokenizer: Tokenizer, amount: float) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.to_bytes() + _EXACT_SPACES)
        self._kept = tokenizer.table.controls | tokenizer.table.protected | {UNK}
        self._amount = amount

    def sample(self, ids: Sequence[int], seed: int) -> list[int]:
        """Return a segmentation of the text of `ids` that is a function of the seed; tags and protected symbols stay.

        Ids with `<unk>`, or with bytes that form no character, have no text and are returned as they are. Only one
        thread at a time may call it: the seed is a global variable of SentencePiece.
        """
        runs = [(is_kept, list(run)) for is_kept, run in groupby(ids, self._kept.__contains__)]
        texts = [self._processor.decode(run) for is_kept, run in runs if not is_kept]
        sentencepiece.set_random_generator_seed(seed % _SEEDS)
        # For two texts or more SentencePiece starts a thread, whose random generator begins with the seed.
        sampled = self._processor.encode(
            [*texts, ""], enable_sampling=True, nbest_size=-1, alpha=self._amount, num_threads=1
        )
        chosen = [i for is_kept, run in runs for i in (run if is_kept else sampled.pop(0))]
        return list(ids) if UNK in chosen or any("\ufffd" in text for text in texts) else chosen
