"""Which language a text is in: by the scripts of its letters, and within a script by py3langid.

py3langid is langid.py (Lui & Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool") with a newer
model, which it contains.

>>> identify("Non so che cosa abbia detto ieri.")[0]
'it'
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from nmt.text.languages import SCRIPTS, SOLE_LANGUAGES, detect_language, primary_code, script_of

_BLOCK = 20
"""Lines that are identified together: of 3,990 such blocks of 18 corpora, many of program texts, 3 English and no
Italian ones were taken for another language."""
_LEAST_LINES = 100
"""Lines of text from which there is a conclusion: fewer may be names or commands."""
_CONFIDENCE, _CERTAIN = 0.8, 0.8  # probability of a block, and share of the blocks with it
_OWN_SCRIPT, _LATIN_SCRIPT = 0.2, 0.5  # least share of letters; text in other scripts has many Latin names and terms
_RELATED = (
    {"no", "nn", "da"}, {"hr", "bs", "sr"}, {"id", "ms"}, {"fa", "tg"}, {"pt", "gl"}, {"en", "pcm"},
    {"zh", "yue", "wuu"},
)  # fmt: skip
"""Languages that py3langid does not distinguish reliably."""


def identify(text: str) -> tuple[str, float]:
    """Return the primary code of the language that a text most probably is in, and the probability."""
    language, probability = _identifier().classify(text)
    return language, probability


def confusable(found: str, code: str) -> bool:
    """Whether the language that `identify` found is no evidence against the language `code`.

    It is none against the same language, a related one and one that py3langid does not have.
    """
    own = {"nb": "no"}.get(primary_code(code), primary_code(code))
    return found in (own, "zxx") or own not in _identifier().labels or any({found, own} <= one for one in _RELATED)


def language_of(lines: Sequence[str]) -> str | None:
    """Return the language of a text, None if it is not certain or if there are fewer than 100 lines."""
    lines = [line for line in lines if any(map(str.isalpha, line))]
    if len(lines) < _LEAST_LINES:
        return None
    share = script_shares("\n".join(lines))
    if east_asian := detect_language(lines).code:
        return east_asian
    if sole := SOLE_LANGUAGES.get(max(share, key=lambda script: share[script])):
        return sole
    starts = range(0, len(lines) - _BLOCK + 1, _BLOCK)
    found = [identify("\n".join(lines[start : start + _BLOCK])) for start in starts]
    certain = Counter(language for language, probability in found if probability >= _CONFIDENCE)
    return next((language for language, count in certain.items() if count >= _CERTAIN * len(starts)), None)


def found_instead(lines: Sequence[str], code: str) -> str | None:
    """Return the language or script that a sample of a text is in, if that is certainly not the language `code`.

    >>> found_instead(["Non so che cosa sia il tempo, ma non mi piace."] * 100, "en")
    'it'
    """
    share, expected = script_shares("\n".join(lines)), script_of(code)
    if sum(any(map(str.isalpha, line)) for line in lines) < _LEAST_LINES:
        return None
    found = language_of(lines)
    if expected is not None and share.get(expected, 0) < (_LATIN_SCRIPT if expected == "Latin" else _OWN_SCRIPT):
        return found or max(share, key=lambda script: share[script])
    return None if found is None or confusable(found, code) else found


def script_shares(text: str) -> dict[str, float]:
    """Return the share of the letters of a text that are in each script."""
    counts = Counter(text)
    distinct = "".join(counts)
    letters = sum(counts[character] for character in distinct if character.isalpha())
    in_script = {
        script: sum(counts[letter] for letter in re.findall(f"[{inside}]", distinct))
        for script, inside in SCRIPTS.items()
    }
    return {script: count / letters for script, count in in_script.items() if count and letters}


@cache
def _identifier() -> Any:
    """Return the model, which takes half a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
