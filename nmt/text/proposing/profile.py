"""The size of a parallel text: pairs, characters, and about how many tokens."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from nmt.config import TokenizerSettings
from nmt.text.corpus import EvenSample
from nmt.text.languages import UNSPACED
from nmt.text.preparing.tokenizer_training import proposed_size
from nmt.text.readers import SentencePair

_SAMPLE = 10_000  # pairs at most
_LONGEST = 1_000  # characters of a line of the sample
_SPACED = (0.47, -0.59)
"""Characters in a piece are a·ln(pieces of several characters) + b: the median of measurements on Tatoeba en-it with
400 to 8,000 pieces, which they fit within 10 %."""
_UNSPACED_CHARACTERS = 1.4
"""Characters in a piece of Chinese, with 5,000 pieces on Tatoeba en-zh."""
_LEAST_CHARACTERS = 1.2


def characters_in_a_token(text: str, vocabulary: int, alphabet: int) -> float:
    """Return about how many characters a token of such text has, with so many pieces, for so many characters."""
    unspaced = len(re.findall(f"[{UNSPACED}]", text)) / max(1, len(text))
    several = max(2, vocabulary - 260 - alphabet)
    spaced = max(_LEAST_CHARACTERS, _SPACED[0] * math.log(several) + _SPACED[1])
    return unspaced * _UNSPACED_CHARACTERS + (1 - unspaced) * spaced


class TextProfile:
    """The numbers of pairs and characters of a text, and a sample, made while it is read."""

    def __init__(self) -> None:
        self.pairs = self.empty = 0
        """All pairs, and those with an empty side, which are not trained on."""
        self.characters = [0, 0]
        """Of the source and the target side."""
        self._sample = EvenSample(_SAMPLE)

    def counted(self, pairs: Iterable[SentencePair]) -> Iterator[SentencePair]:
        """Yield the pairs without an empty side, and count all."""
        for pair in pairs:
            self.pairs += 1
            if pair.source.strip() and pair.target.strip():
                self.characters[0] += len(pair.source)
                self.characters[1] += len(pair.target)
                self._sample.add(pair._replace(source=pair.source[:_LONGEST], target=pair.target[:_LONGEST]))
                yield pair
            else:
                self.empty += 1

    @property
    def sample(self) -> list[SentencePair]:
        """An even sample of the pairs, without the ends of long lines."""
        return self._sample.pairs

    def tokens(self) -> tuple[int, tuple[int, int]]:
        """Return about how many pieces `vocab_size: auto` will choose, and how many tokens each side has."""
        sides = ["".join(pair.source for pair in self.sample), "".join(pair.target for pair in self.sample)]
        alphabet = Counter("".join(sides))
        vocabulary = proposed_size(sum(self.characters), alphabet, TokenizerSettings())
        source, target = (
            round(count / characters_in_a_token(side, vocabulary, len(alphabet))) + self.pairs - self.empty
            for count, side in zip(self.characters, sides, strict=True)
        )
        return vocabulary, (source, target)
