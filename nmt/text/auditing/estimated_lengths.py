"""How many pairs the rules on tokens would remove, estimated from characters: an audit makes no tokenizer."""

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from nmt.text.preparing.chunks import SIDES, KeptChunk, repeated_in
from nmt.text.preparing.duplicates import BitSet
from nmt.text.preparing.stages import Filtered, Text
from nmt.text.preparing.vocabulary import proposed_size
from nmt.text.proposing.profile import characters_in_a_token

_SAMPLE = 5_000  # pairs of each corpus that show how many characters a token has


def estimated_removals(text: Text, filtered: Filtered, repeated: Mapping[str, BitSet]) -> Counter[str]:
    """Return about how many pairs of a text `too_long` and `ratio` would remove after the other rules."""
    samples: dict[int, tuple[str, str]] = {}
    for number, corpus in enumerate(filtered.corpora):
        if corpus not in samples and filtered.kept[number]:
            chunk = KeptChunk(text.folder, number)
            samples[corpus] = ("".join(chunk.texts("source")[:_SAMPLE]), "".join(chunk.texts("target")[:_SAMPLE]))
    alphabet = Counter("".join(side for sample in samples.values() for side in sample))
    settings = text.recipe.tokenizer
    size = settings.vocab_size
    if size == "auto":
        size = proposed_size(sum(filtered.characters), alphabet, settings, len(text.recipe.tags))
    removed = Counter[str]()
    for number, start in enumerate(accumulate(filtered.kept[:-1], initial=0)):
        if not filtered.kept[number]:
            continue
        chunk, corpus = KeptChunk(text.folder, number), filtered.corpora[number]
        source, target = (characters_in_a_token(sample, size, len(alphabet)) for sample in samples[corpus])
        repetitions = repeated_in(chunk, start, repeated)
        characters = (np.array(list(map(len, chunk.texts(side)))) for side in SIDES)
        lengths = [np.rint(count / in_token) for count, in_token in zip(characters, (source, target), strict=True)]
        reasons = text.rules[corpus].removed_by_length(*lengths)
        removed.update(reason for index, reason in reasons if index not in repetitions)
    return removed
