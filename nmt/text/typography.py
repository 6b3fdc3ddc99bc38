"""Typography of the target language: full-width punctuation in Chinese, accents and apostrophes in Italian.

>>> apply_typography("zh", '他说 "你好" , 然后走了.')
'他说“你好”，然后走了。'
>>> apply_typography("it", "E' l' amico di Ugo , perche' no ?")
"È l'amico di Ugo, perché no?"

Correct text and text in other languages are not changed. Spaces between Chinese and Latin letters or digits are neither
removed nor added.
"""

import re
from collections.abc import Callable, Iterable

from nmt.text.languages import HAN, primary_code

_WIDE_MARKS = "，。！？：；（）、《》「」『』【】…"
_WIDE = str.maketrans(",.!?:;", "，。！？：；")
_OF_HAN = f"[{HAN}{_WIDE_MARKS}“”]"

_VOWEL = "[aeiouhàèéìòùAEIOUHÀÈÉÌÒÙ]"
_ELIDED = re.compile(
    r"(?<![\w'’])((?:l|un|d|c|s|m|t|v|n|gl|(?:d|n|qu)ell|(?:a|da|su|co)ll?|all|dall|sull|bell|quest|tutt|anch|com|dov|cos"
    rf"|nient|mezz|sant|senz|nessun|ciascun|qualcun)['’]) (?={_VOWEL})",
    re.IGNORECASE,
)
_ACCENTS = {
    "é": "perche poiche affinche benche finche anziche purche giacche cosicche sicche",
    "è": "cioe c'e dov'e cos'e com'e",
    "à": "citta verita liberta universita sara avra potra dovra fara andra gia qualita societa attivita meta",
    "ì": "cosi lunedi martedi mercoledi giovedi venerdi",
    "ò": "puo pero cio",
    "ù": "piu laggiu quaggiu gioventu virtu",
}
_ACCENTED = {word: word[:-1] + accent for accent, words in _ACCENTS.items() for word in words.split()}
_UNACCENTED = re.compile(
    rf"(?<![\w'’])(?:E|(?:{'|'.join(sorted(_ACCENTED, key=len, reverse=True))}))['’](?!\w)", re.IGNORECASE
)
_OPENING_QUOTE = re.compile(r"(?<![\w'’])['’‘](?=\w)")
_NAME_BETWEEN_COLONS = r"(?::[a-z][\w+-]*)+:"  # markup: `:smile:`, or `:py:class:` of reStructuredText
_SPACE_BEFORE_MARK = re.compile(r"(?<=[^\s.,;:!?]) +([,.;:!?]+)(?=\s|$|[\"»”])")
_PLACEHOLDER = "\ue000"  # private use; a model may generate one, but not two around a number


def apply_typography(language: str, text: str, kept: Iterable[str] = ()) -> str:
    """Return a line in the typography of a language; the strings `kept` and names between colons are not changed."""
    rules = _RULES.get(primary_code(language))
    if rules is None or not text:
        return text
    unchanged = [re.escape(string) for string in sorted(set(kept), key=len, reverse=True) if string]
    originals: list[str] = []

    def replace(match: re.Match[str]) -> str:
        originals.append(match[0])
        return f"{_PLACEHOLDER}{len(originals) - 1}{_PLACEHOLDER}"

    typeset, before = re.sub("|".join([*unchanged, _NAME_BETWEEN_COLONS]), replace, text), ""
    while typeset != before:  # in "他,,", the second comma changes after the first one
        typeset, before = rules(typeset), typeset
    return re.sub(f"{_PLACEHOLDER}(\\d+){_PLACEHOLDER}", lambda match: originals[int(match[1])], typeset)


def _chinese(text: str) -> str:
    """Make punctuation next to Han full-width, but not in numbers, addresses and Latin text."""
    if not re.search(f"[{HAN}]", text):
        return text
    text = re.sub(r'"([^"]*)"', _wide_quotes, text)
    text = re.sub(rf"\(([^()]*[{HAN}][^()]*)\)", r"（\1）", text)
    # a mark after Han; a mark other than a full stop before Han; a final question or exclamation mark
    text = re.sub(rf"(?<={_OF_HAN}) *([,!?:;]|\.(?![.\w]))(?!//)", lambda mark: mark[1].translate(_WIDE), text)
    text = re.sub(rf" *([,!?;:]) *(?=[{HAN}“（《])", lambda mark: mark[1].translate(_WIDE), text)
    text = re.sub(r"(?<=\w) *([!?])$", lambda mark: mark[1].translate(_WIDE), text)
    text = re.sub(rf" *([{_WIDE_MARKS}“”]) *", r"\1", text)
    return re.sub(rf"(?<=[{HAN}]) +(?=[{HAN}])", "", text)


def _wide_quotes(match: re.Match[str]) -> str:
    around = match.string[max(0, match.start() - 1) : match.end() + 1]
    return f"“{match[1].strip()}”" if re.search(f"[{HAN}]", around) else match[0]


def _italian(text: str) -> str:
    """Remove spaces after elisions and before marks; write accents for apostrophes, unless these quote words."""
    text = _SPACE_BEFORE_MARK.sub(r"\1", text)
    text = _ELIDED.sub(r"\1", text)
    return text if _OPENING_QUOTE.search(text) else _UNACCENTED.sub(_accent, text)


def _accent(match: re.Match[str]) -> str:
    word = match[0][:-1]
    if word in ("E", "e"):
        return "È" if word == "E" else match[0]
    accented = _ACCENTED[word.lower().replace("’", "'")]
    return accented.upper() if word.isupper() and len(word) > 1 else word[:-1] + accented[-1]


_RULES: dict[str, Callable[[str], str]] = {"zh": _chinese, "it": _italian}
