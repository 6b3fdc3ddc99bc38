"""Full-width punctuation for Chinese, narrow for others; sentence case for lines in capitals and English titles.

>>> apply_typography("zh", '他说 "你好" , 然后走了.')
'他说“你好”，然后走了。'
>>> apply_typography("en", "See Node.js， version 2；then Tom。")
'See Node.js, version 2; then Tom.'
>>> sentence_case("TOM AND I SAW THE WORLD CUP.", "en", lambda word: 1 + (word == "tom"), in_title=False)
'Tom and I saw the world cup.'
>>> restored_case("Tom ed io abbiamo visto la coppa del mondo.", "TOM AND I SAW THE WORLD CUP.", "it")
'TOM ED IO ABBIAMO VISTO LA COPPA DEL MONDO.'
>>> sentence_case("A Tale of Yorkshire Towns", "en", lambda word: 1, in_title=True)
'A tale of yorkshire towns'
>>> restored_case("Un racconto delle città di yorkshire", "A Tale of Yorkshire Towns", "it")
'Un racconto delle città di Yorkshire'

Correct text is not changed. Spaces between Chinese and Latin letters or digits are neither removed nor added. Models
are trained on text in sentence case.
"""

import re
from collections.abc import Callable, Iterable

from nmt.text.items import ITEM
from nmt.text.languages import HAN, UNSPACED, primary_code, script_of

_WIDE_MARKS = "，。！？：；（）、《》「」『』【】…"
WIDE = str.maketrans(",.!?:;", "，。！？：；")
_BRACKETS = str.maketrans("（）", "()")
NARROW = {wide: narrow for narrow, wide in WIDE.items()} | {ord("、"): ","} | _BRACKETS
_TO_NARROW = "，、。！？：；"
_WIDE_EDGES = re.compile(f"^[{_TO_NARROW}（）]+|[{_TO_NARROW}（）]+$")
_KEPT = ("Japanese", None)  # scripts whose marks may have either width; an unknown one may be Han, as in Hakka
_OF_HAN = f"[{HAN}{_WIDE_MARKS}“”]"

_NAME_BETWEEN_COLONS = r"(?::[a-z][\w+-]*)+:"  # markup: `:smile:`, or `:py:class:` of reStructuredText
_PLACEHOLDER = "\ue000"  # private use, on both sides of a number; one in the text is replaced, too


def apply_typography(language: str, text: str, kept: Iterable[str] = ()) -> str:
    """Return a line in the typography of a language; the strings `kept` and names between colons are not changed."""
    script = script_of(language)
    if script in _KEPT or not re.search(f"[{HAN}]" if script == "Han" else f"[{_TO_NARROW}（）]", text):
        return text
    unchanged = [re.escape(string) for string in sorted(set(kept), key=len, reverse=True) if string]
    originals: list[str] = []

    def replace(match: re.Match[str]) -> str:
        originals.append(match[0])
        return f"{_PLACEHOLDER}{len(originals) - 1}{_PLACEHOLDER}"

    text = re.sub("|".join([*unchanged, _NAME_BETWEEN_COLONS, _PLACEHOLDER]), replace, text)
    typeset = (_full_width if script == "Han" else _narrow)(text)
    return re.sub(f"{_PLACEHOLDER}(\\d+){_PLACEHOLDER}", lambda match: originals[int(match[1])], typeset)


def item_typography(language: str, text: str) -> str:
    """Return an item with the brackets and marks of a language at its edges, such as `({0})`."""
    is_kept = script_of(language) in ("Han", *_KEPT)
    return text if is_kept else _WIDE_EDGES.sub(lambda marks: marks[0].translate(NARROW), text)


def _full_width(text: str) -> str:
    """Make punctuation next to Han full-width, but not in numbers, addresses and Latin text."""
    text = re.sub(r'"([^"]*)"', _wide_quotes, text)
    text = re.sub(rf"\(([^()]*[{HAN}][^()]*)\)", r"（\1）", text)
    # a mark after Han; a mark other than a full stop before Han, or between items; a final question or exclamation mark
    text = re.sub(rf"(?<={_OF_HAN}) *((?:[,!?:;]|\.(?![.\w]))+)(?!//)", lambda mark: mark[1].translate(WIDE), text)
    text = re.sub(
        rf"(?:(?<! ) +)?(?<![,!?;:])([,!?;:]++) *+(?=[{HAN}“（《])", lambda mark: mark[1].translate(WIDE), text
    )
    text = re.sub(f"(?<={ITEM})([,;:]) +(?={ITEM})", lambda mark: mark[1].translate(WIDE), text)
    text = re.sub(r"(?<=\w) *([!?]+)$", lambda mark: mark[1].translate(WIDE), text)
    text = re.sub(rf"(?:(?<! ) +)?([{_WIDE_MARKS}“”]) *", r"\1", text)
    return re.sub(rf"(?<=[{HAN}]) +(?=[{HAN}])", "", text)


def _narrow(text: str) -> str:
    """Replace full-width marks outside of Chinese, with a space before a word or an item, but not in numbers."""
    in_number = r"(?<=\d)(?:：(?=\d)|，(?=\d{3}(?!\d)))"
    text = re.sub(in_number, lambda mark: mark[0].translate(NARROW), text.translate(_BRACKETS))
    return re.sub(
        rf"(?<![{UNSPACED} ]) *([{_TO_NARROW}]+)( *(?=[\"“‘«„¿¡($]*+[\w{ITEM}]))?",
        lambda mark: mark[1].translate(NARROW) + " " * (mark[2] is not None),
        text,
    )


def _wide_quotes(match: re.Match[str]) -> str:
    around = match.string[max(0, match.start() - 1) : match.end() + 1]
    return f"“{match[1].strip()}”" if re.search(f"[{HAN}]", around) else match[0]


_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SHORT = 3  # the most letters of an abbreviation in capitals, and of words that may be lowercase in titles
_DOTTED = ("tr", "az")  # languages with İi and Iı
_TITLE_WORDS, _TITLE_SHARE = 3, 0.75  # the fewest words of a title, and the share of them with capitals


def upper(text: str, language: str) -> str:
    """Return a text in capitals; in Turkish and Azerbaijani, the capital of i is İ."""
    return (text.replace("i", "İ") if primary_code(language) in _DOTTED else text).upper()


def lower(text: str, language: str) -> str:
    """Return a text in lowercase; in Turkish and Azerbaijani, the lowercase of I is ı."""
    return (text.replace("I", "ı").replace("İ", "i") if primary_code(language) in _DOTTED else text).lower()


def is_in_capitals(text: str) -> bool:
    """Whether a text has capitals only, and is no abbreviation; letters of scripts without case are no capitals."""
    words = _WORD.findall(text)
    letters = "".join(words)
    is_cased = 4 * sum(map(str.isupper, letters)) >= 3 * len(letters)
    return is_cased and text == text.upper() != text.lower() and (len(words) > 1 or len(letters) > _SHORT)


def is_title(text: str, language: str) -> bool:
    """Whether a whole line is an English title; a part of a sentence may have as many names."""
    words = _WORD.findall(text)
    capitals = sum(word[0].isupper() for word in words)
    return (
        primary_code(language) == "en"
        and len(words) >= _TITLE_WORDS
        and capitals >= _TITLE_SHARE * len(words)
        and all(word[0].isupper() for word in words if len(word) > _SHORT)
    )


def sentence_case(text: str, language: str, count: Callable[[str], int], in_title: bool) -> str:
    """Return a text in sentence case if it is in capitals or in a title, else unchanged.

    A word begins with a capital if it has fewer tokens, by `count`, than in lowercase, as names have.
    """
    is_english, in_capitals = primary_code(language) == "en", is_in_capitals(text)
    if not in_capitals and not in_title:
        return text

    def changed(match: re.Match[str]) -> str:
        word = lower(match[0], language)
        name = upper("i", language) + word[1:] if word[0] == "i" else word.capitalize()
        if match[0][1:] != word[1:] and not in_capitals:
            return match[0]  # an abbreviation, or a name such as `YouTube`
        is_name = count(name) < count(word) or (is_english and re.fullmatch(r"i(?:['’].*)?", word))
        return name if is_name or (match.start() == first and match[0] != word) else word

    first = next((match.start() for match in _WORD.finditer(text)), 0)
    return _WORD.sub(changed, text)


def restored_case(text: str, source: str, language: str) -> str:
    """Return a translation of `sentence_case(source)` in capitals, or with the capitals of words that both share."""
    if is_in_capitals(source):
        return upper(text, language)
    words = [word for word in _WORD.findall(source) if len(word) > _SHORT]
    capitals = {word.lower(): upper("i", language) + word[1:] if word[0] == "I" else word for word in words}
    return _WORD.sub(lambda match: capitals.get(match[0], match[0]), text)
