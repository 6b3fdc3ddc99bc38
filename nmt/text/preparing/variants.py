"""Pairs that are derived from a training pair, so that a model learns what people write: `data.variants`.

Related: OpusTrainer (Bogoychev et al. 2023), whose modifiers change pairs during training.

>>> capitals(("My father.", "Mio padre."))
('MY FATHER.', 'MIO PADRE.')
>>> unmarked(("Is it?", "是吗？"))
('Is it', '是吗')
>>> items(("Tom met Ann in 1998.", "Tom incontrò Anna nel 1998."))
('<i1> met Ann in <i2>.', '<i1> incontrò Anna nel <i2>.')
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice

from nmt.config import Variants
from nmt.text.items import KNOWN, read
from nmt.text.languages import SCRIPTS, primary_code, target_language
from nmt.text.preparing.rules import Rules, letters
from nmt.text.tokenizer import ITEMS

Pair = tuple[str, str]

_SENTENCE_END = re.compile("[.!?…؟।。！？｡][\"'”’»)」』）]*$")
_FULL_STOPS, _QUESTION_MARKS = ".。｡।۔", "?？؟"
_EQUAL_MARKS = str.maketrans(dict.fromkeys(_FULL_STOPS, ".") | dict.fromkeys(_QUESTION_MARKS, "?"))
# Not after another mark, as in `...`, nor the last one of an abbreviation: `at 5 p.m.`
_FINAL_MARK = re.compile(rf"(?<=\w)(?<!\.\w)[{_FULL_STOPS}{_QUESTION_MARKS}]$")
_WORD_START = re.compile(r"(?<!\S)\W*\w")
_IN_WORD = rf"[{SCRIPTS['Latin']}\d]"
_TOKEN = re.compile(rf"{KNOWN}|(?<!{_IN_WORD})(?:\d+(?:[.,:/]\d+)*|[A-ZÀ-ÖØ-Þ][{SCRIPTS['Latin']}]+)(?!{_IN_WORD})")
_SIGNS = ["😀", "😂", "😊", "😍", "😉", "😢", "😭", "😡", "🤔", "👍", "👏", "🙏", "🎉", "🔥", "❤️", "♪"]
_OTHER_CASE = ("tr", "az")  # the capital of their i is İ


def joined(pairs: Sequence[Pair], separators: Pair) -> Pair | None:
    """Return pairs as one; None for one pair, sides that are equal, and sides that do not end a sentence."""
    sides = [[*side] for side in zip(*pairs, strict=True)]
    if len(pairs) < 2 or any(len({*side}) < len(pairs) or not all(map(_SENTENCE_END.search, side)) for side in sides):
        return None
    return separators[0].join(sides[0]), separators[1].join(sides[1])


def capitals(pair: Pair) -> Pair | None:
    """Return a pair in capitals; None if the source is so already, or has letters without case."""
    return _in_case(pair, str.upper)


def title(pair: Pair) -> Pair | None:
    """Return a pair whose words begin with capitals, with the exceptions of `capitals`."""
    return _in_case(pair, partial(_WORD_START.sub, lambda start: start[0].upper()))


def _in_case(pair: Pair, change: Callable[[str], str]) -> Pair | None:
    changed = change(pair[0]), change(pair[1])
    differ = any(new.lower() != old.lower() for new, old in zip(changed, pair, strict=True))
    without_case = any(letter.isalpha() and letter.upper() == letter.lower() for letter in pair[0])
    return None if changed[0] == pair[0] or differ or without_case or read(pair[0]).items else changed


def unmarked(pair: Pair) -> Pair | None:
    """Return a pair without its final full stop or question mark; None if the sides do not end in the same mark."""
    marks = [match[0].translate(_EQUAL_MARKS) for side in pair if (match := _FINAL_MARK.search(side))]
    return (pair[0][:-1], pair[1][:-1]) if len(marks) == 2 and marks[0] == marks[1] else None


def items(pair: Pair, words: Collection[str] = (), first: int = 0) -> Pair | None:
    """Return a pair with symbols for up to three tokens that each side has exactly once; None if there are none.

    The symbols are numbered cyclically from `first`, so that all are learned: few pairs have three such tokens. A
    capitalized word is a name unless it is one of `words` in small letters: `In` begins sentences of two languages.
    """
    source, target = (Counter(token for token in _TOKEN.findall(side) if token.lower() not in words) for side in pair)
    shared = [token for token, count in source.items() if count == target[token] == 1]
    if not shared or any(symbol in side for symbol in ITEMS for side in pair):
        return None
    symbols = dict(zip(shared[: len(ITEMS)], (ITEMS * 2)[first:], strict=False))
    changed = [_TOKEN.sub(lambda token: symbols.get(token[0], token[0]), side) for side in pair]
    return changed[0], changed[1]


def emoji(pair: Pair, number: int, separators: Pair) -> Pair:
    """Return a pair with the sign that a number chooses at the end of both sides or, for a quarter, at the start."""
    sign, (source, target) = _SIGNS[number // 4 % len(_SIGNS)], separators
    if number % 4 == 0:
        return f"{sign}{source}{pair[0]}", f"{sign}{target}{pair[1]}"
    return f"{pair[0]}{source}{sign}", f"{pair[1]}{target}{sign}"


def variants_of(pairs: Sequence[Pair], settings: Variants, rules: Rules) -> Iterator[tuple[int, str, Pair]]:
    """Yield what is derived from consecutive pairs of a text: the index of the pair, the kind, the new pair.

    Of each kind there are as many as its share of the pairs, from those with the lowest digests that fit. None has a
    sentence of the validation or test text.
    """
    digests = [blake2b("\t".join(pair).encode(), digest_size=16).digest() for pair in pairs]
    codes = rules.source.code, rules.target.code
    source, target = ("" if target_language(code).unspaced else " " for code in codes)
    words = {word for pair in pairs for side in pair for word in side.split() if word.islower()}
    cased = not {*map(primary_code, codes)} & {*_OTHER_CASE}
    functions: dict[str, Callable[[int, int], Pair | None]] = {
        "joined": lambda i, number: joined(pairs[i : i + 2 + number % 2], (source, target)),
        "capitals": lambda i, number: (capitals if number % 3 else title)(pairs[i]) if cased else None,
        "unmarked": lambda i, number: unmarked(pairs[i]),
        "items": lambda i, number: items(pairs[i], words, number % len(ITEMS)),
        "emoji": lambda i, number: emoji(pairs[i], number, (source, target)),
    }
    for start, (kind, function) in enumerate(functions.items()):
        # the orders of the kinds, and the numbers, are independent: other bytes of the digests
        order = sorted(range(len(pairs)), key=[digest[start:] for digest in digests].__getitem__)
        made = ((i, kind, pair) for i in order if (pair := function(i, digests[i][-1])) is not None)
        fitting = (one for one in made if rules.held_out.keys().isdisjoint(map(letters, one[2])))
        yield from islice(fitting, round(getattr(settings, kind) * len(pairs)))
