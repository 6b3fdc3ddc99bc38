"""Fonts for the labels of figures and of the page, above all for Chinese characters.

matplotlib's own font has none. Fonts of the machine are tried first, then the one of this package, which has the common
Simplified and Traditional characters. In figures, a character that no font has is written as U+XXXX.
"""

import base64
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont, TTLibError
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

_SHIPPED = "common-han.ttf"
_SIMPLIFIED = re.compile(r"\b(SC|CN|GB)\b|Hei|Song|PingFang|Droid Sans Fallback", re.IGNORECASE)
"""Fonts with the forms of Simplified Chinese, preferred to others that have the same characters."""
_PLACEHOLDERS = re.compile(r"Last ?Resort|\bBlank\b", re.IGNORECASE)
"""Fonts that have a box or nothing for every character."""
_INSTALL = "install one, on Debian and Ubuntu with: sudo apt install fonts-noto-cjk"
_MOST_FONTS = 4
_LARGEST_EMBEDDED = 1_000_000
"""Bytes of a font in the page; browsers use a font of their own for text with more characters."""
PAGE_FONT = "report-embedded"
"""The CSS family of the embedded font."""


@dataclass(frozen=True)
class LabelFonts:
    """Font families that together have the characters of some text, and the characters that none of them has."""

    families: tuple[str, ...]
    missing: frozenset[str] = frozenset()
    paths: tuple[Path, ...] = field(default=(), compare=False)
    """The files of all families after the first one."""

    def label(self, text: str) -> str:
        """Return the text with U+XXXX in place of each character without a glyph; `$` begins no formula."""
        written = (f"U+{ord(character):04X}" if character in self.missing else character for character in text)
        return "".join(written).replace("$", r"\$")

    def warning(self, consequence: str = ", which are written as U+XXXX") -> str | None:
        """Return what is missing, what follows from that and what to install; None if nothing is missing."""
        if not self.missing:
            return None
        shown = " ".join(sorted(self.missing)[:8]) + (" …" if len(self.missing) > 8 else "")
        return f"no font on this machine has {len(self.missing):,} of the characters ({shown}){consequence}; {_INSTALL}"


def fonts_for(texts: Iterable[str]) -> LabelFonts:
    """Return fonts for the characters of some texts: matplotlib's, and others for what it does not have."""
    default = font_manager.findfont("DejaVu Sans")
    missing = {character for text in texts for character in text if character.isprintable()} - _characters(default)
    families, paths = ["DejaVu Sans"], []
    while missing and len(families) < _MOST_FONTS:
        family, path = max(_other_fonts(), key=lambda font: len(missing & _characters(font[1])))
        found = missing & _characters(path)
        if not found:
            break
        families.append(family)
        paths.append(Path(path))
        missing -= found
    return LabelFonts(tuple(families), frozenset(missing), tuple(paths))


def embedded_font(text: str) -> str:
    """Return CSS rules of a font that has just the characters of a text beyond Latin; "" if none is needed or found.

    Each rule lists its characters, so that browsers use it for no others; there is one for each font that has some.
    """
    rest = {character for character in text if ord(character) >= 0x2E80 and character.isprintable()}
    rules, room = "", _LARGEST_EMBEDDED
    for path in fonts_for(["".join(rest)]).paths:
        covered = rest & _characters(str(path))
        try:
            content = _subset(path, covered)
        except (OSError, TTLibError, subset.Subsetter.SubsettingError):
            continue
        if len(content) <= room:
            rules += (
                f'@font-face{{font-family:"{PAGE_FONT}";'
                f'src:url(data:font/woff;base64,{base64.b64encode(content).decode()}) format("woff");'
                f"unicode-range:{','.join(f'U+{ord(one):X}' for one in sorted(covered))}}}"
            )
            rest, room = rest - covered, room - len(content)
    return rules


def _subset(path: Path, characters: set[str]) -> bytes:
    """Return a WOFF font with the glyphs of these characters."""
    options = subset.Options(hinting=False, layout_features=[], flavor="woff")
    output = io.BytesIO()
    with TTFont(path, fontNumber=0, lazy=True) as font:
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=map(ord, characters))
        subsetter.subset(font)
        font.flavor = "woff"
        font.save(output)
    return output.getvalue()


@cache
def _other_fonts() -> list[tuple[str, str]]:
    """Return family and file of all fonts of the machine, preferred ones first, and of the one of this package."""
    found = {
        entry.fname: entry.name
        for entry in font_manager.fontManager.ttflist
        if entry.weight in (400, "normal") and not _PLACEHOLDERS.search(entry.name)
    }
    ordered = sorted(found.items(), key=lambda font: (not _SIMPLIFIED.search(font[1]), font[1], font[0]))
    shipped = str(files("nmt.report").joinpath(_SHIPPED))
    font_manager.fontManager.addfont(shipped)
    name = font_manager.FontProperties(fname=shipped).get_name()
    return [*((name, path) for path, name in ordered if path != shipped), (name, shipped)]


@cache
def _characters(path: str) -> frozenset[str]:
    """Return the characters that a font file has glyphs for; none if it cannot be read."""
    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (OSError, RuntimeError):
        return frozenset()
