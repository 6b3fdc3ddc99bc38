"""Typography of Chinese: full-width punctuation.

>>> apply_typography("zh", '他说 "你好" , 然后走了.')
'他说“你好”，然后走了。'

Correct text and text in other languages are not changed. Spaces between Chinese and Latin letters or digits are neither
removed nor added.
"""

import re
from collections.abc import Iterable

from nmt.text.languages import HAN, primary_code

_WIDE_MARKS = "，。！？：；（）、《》「」『』【】…"
_WIDE = str.maketrans(",.!?:;", "，。！？：；")
_OF_HAN = f"[{HAN}{_WIDE_MARKS}“”]"

_NAME_BETWEEN_COLONS = r"(?::[a-z][\w+-]*)+:"  # markup: `:smile:`, or `:py:class:` of reStructuredText
_PLACEHOLDER = "\ue000"  # private use; a model may generate one, but not two around a number


def apply_typography(language: str, text: str, kept: Iterable[str] = ()) -> str:
    """Return a line in the typography of a language; the strings `kept` and names between colons are not changed."""
    if primary_code(language) != "zh" or not re.search(f"[{HAN}]", text):
        return text
    unchanged = [re.escape(string) for string in sorted(set(kept), key=len, reverse=True) if string]
    originals: list[str] = []

    def replace(match: re.Match[str]) -> str:
        originals.append(match[0])
        return f"{_PLACEHOLDER}{len(originals) - 1}{_PLACEHOLDER}"

    typeset, before = re.sub("|".join([*unchanged, _NAME_BETWEEN_COLONS]), replace, text), ""
    while typeset != before:  # in "他,,", the second comma changes after the first one
        typeset, before = _full_width(typeset), typeset
    return re.sub(f"{_PLACEHOLDER}(\\d+){_PLACEHOLDER}", lambda match: originals[int(match[1])], typeset)


def _full_width(text: str) -> str:
    """Make punctuation next to Han full-width, but not in numbers, addresses and Latin text."""
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
