"""Lines in capitals, and English titles, in the case of sentences: the only one that models of sentences know.

>>> sentence_case("TOM AND I SAW THE WORLD CUP.", "en", lambda word: 1 + (word == "tom"))
'Tom and I saw the world cup.'
>>> restored_case("Tom ed io abbiamo visto la coppa del mondo.", "TOM AND I SAW THE WORLD CUP.")
'TOM ED IO ABBIAMO VISTO LA COPPA DEL MONDO.'
>>> sentence_case("A Tale of Yorkshire Towns", "en", lambda word: 1)
'A tale of yorkshire towns'
>>> restored_case("Un racconto delle città di yorkshire", "A Tale of Yorkshire Towns")
'Un racconto delle città di Yorkshire'
"""

import re
from collections.abc import Callable

from nmt.text.languages import primary_code

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# Letters of a word in capitals that may be an abbreviation, and of words that may be small in titles.
_SHORT = 3
_TITLE_WORDS, _TITLE_SHARE = 3, 0.75  # the fewest words of a title, and the share of them with capitals


def is_in_capitals(text: str) -> bool:
    """Whether a text has capitals only, and is no abbreviation."""
    words = _WORD.findall(text)
    return text == text.upper() != text.lower() and (len(words) > 1 or len("".join(words)) > _SHORT)


def _is_title(text: str) -> bool:
    words = _WORD.findall(text)
    capitals = sum(word[0].isupper() for word in words)
    return (
        len(words) >= _TITLE_WORDS
        and capitals >= _TITLE_SHARE * len(words)
        and all(word[0].isupper() for word in words if len(word) > _SHORT)
    )


def sentence_case(text: str, language: str, count: Callable[[str], int]) -> str:
    """Return a text in capitals, or an English title, in the case of sentences; other texts as they are.

    A word begins with a capital where it then has fewer tokens, as names have, by `count`.
    """
    is_english, in_capitals = primary_code(language) == "en", is_in_capitals(text)
    if not in_capitals and not (is_english and _is_title(text)):
        return text

    def changed(match: re.Match[str]) -> str:
        word = match[0].lower()
        if match[0][1:] != word[1:] and not in_capitals:
            return match[0]  # an abbreviation, or a name such as `YouTube`
        is_name = count(word.capitalize()) < count(word) or (is_english and re.fullmatch(r"i(?:['’].*)?", word))
        return word.capitalize() if is_name or match.start() == first else word

    first = next((match.start() for match in _WORD.finditer(text)), 0)
    return _WORD.sub(changed, text)


def restored_case(text: str, source: str) -> str:
    """Return a translation of `sentence_case(source)` in capitals, or with those of the words that it has in common."""
    if is_in_capitals(source):
        return text.upper()
    capitals = {word.lower(): word for word in _WORD.findall(source) if len(word) > _SHORT}
    return _WORD.sub(lambda match: capitals.get(match[0], match[0]), text) if _is_title(source) else text
