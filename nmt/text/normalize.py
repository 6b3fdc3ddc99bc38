"""Normalization: NFC, no invisible characters, single spaces; a sentence is one line.

>>> normalize("\\ufeffe\\u0301 vero\\u2028,\\t lo\\xa0so ")
'é vero , lo so'
>>> join_unspaced("我 喜欢 （ iPad ） 。")
'我喜欢（iPad）。'
"""

import re
import unicodedata
from collections.abc import Callable

from nmt.text.languages import UNSPACED, UNSPACED_TEXT, script_of

# Invisible characters, which are removed: controls that are not whitespace (Cc), format characters (Cf), noncharacters.
# Format characters that change the visible text are kept: the joiners U+200C and U+200D of Persian, Hindi and emoji,
# the visible signs of Arabic, Syriac and Kaithi, the layout of hieroglyphs and shorthand, tags of emoji flags.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f"
    "\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0001"
    "\ufdd0-\ufdef" + "".join(chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17)) + "]+"
)
_MISREAD = re.compile("[\x80-\x84\x86-\x9f]")  # Windows-1252 that was read as Latin-1
_LETTER = "A-Za-zÀ-ÖØ-öø-ɏ"
_APOSTROPHE = re.compile(f"(?<=[{_LETTER}])[`´](?=[{_LETTER}])")
_UNSPACED_MARKS = UNSPACED_TEXT.removesuffix(UNSPACED)
_SPACED = re.compile(f"(?<=[{UNSPACED_TEXT}]) (?=[{UNSPACED_TEXT}])")
_JOINED = re.compile(f"(?<=[{UNSPACED_TEXT}])(?=[{UNSPACED_TEXT}])")
_TOKENIZER_SPACE = re.compile(f"{_SPACED.pattern}|(?<=[{_UNSPACED_MARKS}]) | (?=[{_UNSPACED_MARKS}])")
# A line is taken as tokenized from this many spaces between Chinese characters, at this share of the places for them.
_LEAST_SPACES_BETWEEN, _LEAST_SHARE = 2, 0.3
# Text that another program has divided into pieces: byte-pair encoding, SentencePiece, OpenNMT, WordPiece.
PIECES = re.compile(r"@@(?: |$)|▁|￭|</w>| ##\w")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WHITE_SPACE = re.compile(r"[^\S ]")


def visible(text: str) -> str:
    r"""Return `text` without invisible characters; white space of all kinds becomes spaces.

    Control characters from U+0080 are those of Windows-1252, as browsers read Latin-1: `l\x92acqua` is `l’acqua`.
    An unpaired surrogate, which UTF-8 cannot encode, becomes U+FFFD.
    """
    if text.isprintable():  # then there are neither surrogates nor characters to remove
        return text
    if _SURROGATE.search(text):
        text = text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace")
    text = _MISREAD.sub(lambda match: match[0].encode("latin-1").decode("cp1252", "ignore"), text)
    return _WHITE_SPACE.sub(" ", _INVISIBLE.sub("", text))


def normalize(text: str) -> str:
    """Return `text` in NFC, without invisible characters, each run of whitespace as one space, trimmed.

    A grave or acute accent between two Latin letters is an apostrophe (`don´t`). Other quotes are kept as they are.

    Whitespace is as Unicode defines it: tabs, U+0085, U+00A0, U+2028, U+3000. Full-width punctuation is kept, which
    NFKC would change. The function is idempotent.
    """
    text = visible(text)  # before NFC, so that nothing invisible separates a letter from its accent
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if "`" in text or "´" in text:
        text = _APOSTROPHE.sub("'", text)
    return text.strip() if "  " not in text else " ".join(text.split())


def normalizer_of(language: str) -> Callable[[str], str]:
    """Return the normalization of a language: `normalize`, and for Chinese and Japanese also `join_unspaced`."""
    return _normalize_unspaced if script_of(language) in ("Han", "Japanese") else normalize


def _normalize_unspaced(text: str) -> str:
    return join_unspaced(normalize(text))


def join_unspaced(text: str) -> str:
    """Return a normalized line of Chinese or Japanese without the spaces of a tokenizer.

    Lines with few spaces, such as titles, are returned unchanged.
    """
    if text.count(" ") < _LEAST_SPACES_BETWEEN:
        return text
    spaces = len(_SPACED.findall(text))
    if spaces < _LEAST_SPACES_BETWEEN or spaces < _LEAST_SHARE * (spaces + len(_JOINED.findall(text))):
        return text
    return _TOKENIZER_SPACE.sub("", text)
