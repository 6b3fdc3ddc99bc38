"""Lines that are no text: decoded wrongly, or mostly digits and symbols.

Wrongly decoded are U+FFFD, and mojibake, which is text in one encoding read as another one.

>>> damage("Perch\\u00c3\\u00a9 no?")
'“Ã©” for “é”'
"""

import re

from nmt.text.languages import UNSPACED_TEXT

# The characters that the bytes 80 to BF are in Windows-1252 and in Latin-1: they continue a character of UTF-8.
CONTINUATION = "\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
MISREAD_START = "ÂÃÄÅÎÏÐÑ×ØÙà-í"
_SUSPICIOUS = re.compile(f"[{MISREAD_START}][{CONTINUATION}]")
"""A match in all misread UTF-8, but in few lines; quick, since it begins with one class of characters."""
# One misread character of Latin-1 or of punctuation is evidence, unless it follows a capital (`MANHÃ…` is Portuguese).
# Those of other alphabets are two in a row: `né»…` may be an accented letter before punctuation.
_MISREAD_UTF8 = re.compile(
    f"(?<![A-ZÀ-Þ])[ÂÃ][{CONTINUATION}]|â[\x80€][{CONTINUATION}]|(?:[ÄÅÎÏÐÑ×ØÙ][{CONTINUATION}]){{2,}}"
    f"|(?:[à-í][{CONTINUATION}]{{2}}){{2,}}"
)
MISREAD_RUN = "\x81-\xfe"
_MISREAD_CHINESE = re.compile(f"[{MISREAD_RUN}]{{8,}}")
"""GB 18030 read as Latin-1; no European language has so many accented letters in a row."""
_CHINESE = re.compile(f"[{UNSPACED_TEXT}]+")
MISREAD_UNKNOWN = "锟斤拷"
"""The UTF-8 of U+FFFD, read as GBK."""

TEXT_BYTES = bytes(code for code in range(0x100) if code >= 0x80 or chr(code).isalpha() or chr(code).isspace())
"""Letters and spaces of ASCII, and all bytes of other characters."""
LEAST_SYMBOL_SHARE = 0.75  # of a line without spaces
LEAST_SYMBOLS = 8  # a short text may be a time or an amount


def damage(text: str) -> str | None:
    """Return what shows that a line, as it was read, was decoded wrongly; None if nothing does."""
    if text.isascii():
        return None
    for unknown in ("\ufffd", MISREAD_UNKNOWN):
        if unknown in text:
            return f"“{unknown}” at character {text.index(unknown) + 1}"
    if _SUSPICIOUS.search(text) and (utf8 := _MISREAD_UTF8.search(text)):
        return f"“{utf8[0]}” for “{_bytes(utf8[0]).decode('utf-8', 'replace')}”"
    if chinese := _MISREAD_CHINESE.search(text):
        decoded = chinese[0].encode("latin-1").decode("gb18030", "ignore")
        if _CHINESE.fullmatch(decoded):
            return f"“{chinese[0]}” for “{decoded}”"
    return None


def _bytes(text: str) -> bytes:
    """Return the bytes that are these characters in Windows-1252, or where it has none, in Latin-1."""
    return b"".join(
        character.encode("latin-1") if character <= "\xff" else character.encode("cp1252") for character in text
    )


def mostly_symbols(source: str, target: str) -> str | None:
    """Return the share of ASCII digits and symbols in a side of a normalized pair, if they are most of it."""
    for text in (source, target):
        number = len(text.encode().translate(None, TEXT_BYTES))
        if number >= LEAST_SYMBOLS and (share := number / len(text.replace(" ", ""))) > LEAST_SYMBOL_SHARE:
            return f"{share:.0%} digits and symbols"
    return None
