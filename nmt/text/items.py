r"""Items: what must not change in a line. A line is text in which each item is the one character `ITEM`.

>>> line = read("Open <b>{0}</b>, or see https://b.org/x.")
>>> line.text.replace(ITEM, "#"), [item.text for item in line.items]
('Open ###, or see #.', ['<b>', '{0}', '</b>', 'https://b.org/x'])
>>> str(line)
'Open <b>{0}</b>, or see https://b.org/x.'

So no function on text, such as a splitter of sentences, can cut or change an item. Items are the forms of `_KNOWN`, and
each chunk between spaces that looks like code. Coded text of this kind is what Okapi calls a `TextFragment`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from nmt.text.languages import FURTHER_UNSPACED, SPACED_LETTER, UNSPACED, UNSPACED_TEXT
from nmt.text.normalize import visible

ITEM = "\ufffc"  # OBJECT REPLACEMENT CHARACTER; one in the input is an item, too

# `opening` and `closing` are those of a pair around words.
Role = Literal["single", "opening", "closing"]


class Item(NamedTuple):
    """A part of a line that is not translated."""

    text: str
    role: Role = "single"
    name: str = ""  # the name that an opening item shares with its closing item
    # Whether it is code of a document's format, and no part of the text that the format encodes.
    is_markup: bool = False


class Line(NamedTuple):
    """A line, or a part of one: its text, with the character `ITEM` for each of the items, and the items."""

    text: str
    items: tuple[Item, ...] = ()

    def __str__(self) -> str:
        if not self.items:
            return self.text
        return "".join(piece if isinstance(piece, str) else piece.text for piece in self.pieces())

    def pieces(self) -> Iterator[str | Item]:
        """Yield the texts between the items, and the items, in order; the first and the last are texts."""
        first, *rest = self.text.split(ITEM)
        yield first
        for item, text in zip(self.items, rest, strict=True):
            yield item
            yield text

    def cut(self, ends: Sequence[int]) -> list["Line"]:
        """Return the parts of the line that end at these positions of the text, and the rest."""
        if not ends:
            return [self]
        parts, first = list[Line](), 0
        for start, end in pairwise((0, *ends, len(self.text))):
            text = self.text[start:end]
            parts.append(Line(text, self.items[first : first + text.count(ITEM)]))
            first += text.count(ITEM)
        return parts

    def without(self, item: Item) -> "Line":
        """Return the line without the first item that equals `item`, if there is one."""
        if item not in self.items:
            return self
        index, texts = self.items.index(item), self.text.split(ITEM)
        left, right = texts[index : index + 2]
        texts[index : index + 2] = [left + (right.removeprefix(" ") if left[-1:] in ("", " ") else right)]
        return Line(ITEM.join(texts), self.items[:index] + self.items[index + 1 :])


NO_TEXT = Line("")


def joined(parts: Iterable[Line]) -> Line:
    """Return the line that consists of these parts."""
    lines = list(parts)
    return Line("".join(line.text for line in lines), tuple(item for line in lines for item in line.items))


def with_signs(line: Line, signs: str) -> Line:
    """Return the line in which runs of the characters `signs` are items, too."""
    pattern = re.compile(f"([{re.escape(signs)}]+)")
    # as in `pieces`, texts at even indices, items at odd ones
    parts = [part for piece in line.pieces() for part in (pattern.split(piece) if isinstance(piece, str) else [piece])]
    items = tuple(Item(part) if isinstance(part, str) else part for part in parts[1::2])
    return Line(ITEM.join(map(str, parts[::2])), items)


# A letter of a word, and no such letter before, or after: Chinese may be adjacent.
_W, _NO_W, _NO_W_AFTER = SPACED_LETTER, rf"(?<!{SPACED_LETTER})", rf"(?!{SPACED_LETTER})"
_ADDRESS = rf"[^\s<>\"“”«»{{}}|\\^`(){UNSPACED_TEXT}]|\([^\s<>(){UNSPACED_TEXT}]*\)|\{{[\w.]*\}}"
_ADDRESS_END = rf"(?:[/#=&%~+-]|[^\W{UNSPACED_TEXT}]|(?<=[)}}]))"
# The rest of an address that stands apart from other words: Chinese after a slash belongs to it.
_IRI = rf"(?:{_ADDRESS}|(?<=[/=#])[{UNSPACED}][\w·-]*+(?:\(\w+\))?)*(?:{_ADDRESS_END}|(?<=[{UNSPACED}]))"
_HOST = (
    rf"{_NO_W}(?<![@.-])(?:(?:[a-z0-9-]++\.)++(?:com|org|net|edu|gov|info|io|dev)|localhost(?=[:/])){_NO_W_AFTER}(?!-)"
)
_SCHEME = r"[A-Za-z][a-z0-9+.-]{1,20}://|www\.|mailto:|tel:|sms:|doi:|urn:|magnet:|data:(?=[a-z]+/)"
_SYMBOLS = (
    "©®™§¶†‡•±×÷\u2190-\u21ff\u2200-\u22ff\u2300-\u23ff\u2460-\u27bf\u2b00-\u2bff\u3297\u3299\u266a-\u266f"
    "\ue000-\uf8ff\U0001f000-\U0001faff"
)
_JOINERS = "\u200d\ufe0f\u20e3\U000e0020-\U000e007f"  # within an emoji
SCRIPT = r"<%(?:[^%<]|%(?!>)|<(?!%))*+%>|<\?(?:[^?<]|\?(?!>)|<(?!\?))*+\?>"  # of templates: <%= x %>, <?= $x ?>
_IN_TAG = rf"(?:[^<>\"']|\"(?:[^\"<]|{SCRIPT})*+\"|'(?:[^'<]|{SCRIPT})*+')*+"
_START = r"(?<![^\s\"'“‘«(\[（])"
_START_OR_UNSPACED = rf"(?<![^\s\"'“‘«(\[{UNSPACED_TEXT}{FURTHER_UNSPACED}])"
_BBCODE = r"\[/?(?:b|i|u|s|url|img|code|color|size|quote)(?:=[^][]*)?\]"
_NESTED = r"\{[^{}]*+\}"
for _ in range(5):
    _NESTED = rf"\{{(?:[^{{}}]|{_NESTED})*+\}}"
# The end of a link of Markdown; `[i](a word)[/i]` is none.
_LINK = r"\]\((?=[^()\s]*[/#.:{%$])(?:[^()\s]|\([^()\s]*+\))++(?: \"[^\"]*\")?\)"
_HEX = "[0-9A-Fa-f]"
# Commands of LaTeX that `\\n`, `\\r` and `\\t` begin, and those that often follow a bracket.
_LATEX = (
    "left|right|rangle|rfloor|rceil|rho|theta|tau|times|text[a-z]*|tan|tableofcontents|nabla|neq|newline|newpage|noindent"
    "|notin|frac|sqrt|sum|cdot"
)
# Possessive and bounded by their own delimiters: otherwise lines of 100,000 such characters take quadratic time.
_KNOWN = (
    # URLs, hosts and e-mail addresses
    rf"(?<!\w)(?:{_SCHEME}|{_HOST}/){_IRI}|(?<![A-Za-z0-9])(?:{_SCHEME})(?:{_ADDRESS})*{_ADDRESS_END}"
    rf"|{_HOST}(?:[/:?#](?:{_ADDRESS})*{_ADDRESS_END})?"
    r"|(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)+(?::[\w-]++/[\w-]++(?:[./][\w-]++)*)?"
    # tags of XML, HTML, subtitles and templates, comments, times in captions; `<T>` in `List<Array<T>>` is none
    rf"|</?[A-Za-z0-9][^\s<>{UNSPACED}]*+(?![{UNSPACED}]){_IN_TAG}>(?!>)|<\d[\d:.]*>|{SCRIPT}|<!--(?:[^-<]|-(?!->)|<(?!!--))*+-->"
    # mentions, keys, $1 but no sums, $t(key), $[name], {name}, ${name}, {{#if x}}, {n, plural, one {…}}, [[name]]
    rf"|<[@#!:][^\s<>]*>|<?{_NO_W}(?:Ctrl|Alt|Shift|Cmd|Super|Primary|Meta)[->](?:[-<>]|{_W})*+"
    rf"|\$[1-9](?!{_W}|[$万亿千百]|[.,]\d| (?:mil|bil|tril|hundred|thousand))"
    rf"|\$\w*\([^()]*\)|\$\[[^][\s]*\]|(?:[$#%&=€£№]|(?<!\w)[-+~]|@(?:\.\w+)?:?|\\(?:[A-Za-z]+\*?)?)?"
    rf"{_NESTED}(?:%(?![\w(])|(?:px|em|[kKMG]i?B|k[gm]|[cm]m|ms){_NO_W_AFTER})?"
    r"|\[\[[^][]*\]\]|\[%[^][]*%\]|\[\w+_\w+\]|\[\^\w+\]|\[/?\w[\w-]*+ [\w-]+=[^][]*\]|\[/\w[\w-]*+\]"
    r"|!\[[^][]*\]\([^()\s]*\)"
    rf"|\[(?=[^][]*{_LINK})|{_LINK}"
    rf"|(?<!\w){_BBCODE}(?!\w)|\[\w+=[^][]*\]"
    # %%, %name%, %s, %1$d, %-5.2f, %(name)s, %<count>d, %[1]s, %1, %L1; not the percent sign of a number
    r"|%%|%[A-Za-z_][\w.]*%(?![%\w(<{])|(?<!\d)%L?[1-9]\d?(?!\d|[.,]\d)(?!\$)"
    r"|(?<!\d)%(?:\d+\$|\(\w+\)|<\w+>|\[\d+\])?[-+#0,']*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[qjztL])?"
    r"(?:#?@\w*@?|[A-Za-z])(?![A-Za-z0-9])"
    # entities, code, emphasis of Markdown, escapes of strings
    rf"|&(?:amp;)?(?:[A-Za-z][A-Za-z0-9]*|#\d+|#x{_HEX}+);|```[^`]+```|``[^`]+``"
    rf"|(?:{_NO_W}(?<!:)(?::[A-Za-z][\w-]*+)++:)?`[^`]+`_{{0,2}}"
    rf"|\*{{2,3}}|~~|\\(?:u{_HEX}{{4}}|x{_HEX}{{2}}|[0-7]{{3}}|e)(?:\[[\d;]*m)?|\\\((?:[^()]|\([^()]*+\))*+\)"
    rf"|{_START_OR_UNSPACED}(?:[A-Za-z]:\\|\\\\(?=\w+\\)|[A-Za-z]:/(?!/))"
    rf"(?:[^\s\"<>|:*?”{UNSPACED_TEXT}]|(?<=[\\/])[{UNSPACED}]\w*+)*(?<![.,;!?)])"
    rf"|\\(?:{_LATEX})(?![A-Za-z])|{_START_OR_UNSPACED}\\(?![nrt])[A-Za-z]{{2,}}|\\."
    # :name, :smile:, @:key, !name, ~name, --option, -o; a capital after a dash may begin a sentence, and a letter
    # between two dashes is a word, as in `la casa -y el perro- son`
    rf"|(?<![\w:])(?:@(?:\.\w+)?)?:[A-Za-z_][\w-]*(?:\.\w+)*:?|{_START}[!~][A-Za-z_]\w+[!~]?"
    rf"|{_START_OR_UNSPACED}--[a-z](?:-|{_W})*|@:\([\w.]+\)"
    rf"|{_START_OR_UNSPACED}-(?:[a-z]|(?<=[^.!?…\s] -)[A-Z]){_NO_W_AFTER}(?!-|[^-]*+(?<=\w)-(?!\w))"
    # functions, numbers of versions and addresses, not those with groups of three digits
    rf"|{_NO_W}(?:(?<!\.)[A-Za-z_](?:\.|{_W})*+\(\)"
    rf"|(?<![.,])v?(?!\d{{1,3}}(?:\.\d{{3}})+(?!\.){_NO_W_AFTER})\d+(?:\.\d+){{2,}}(?:[-+]?[a-z]+(?:\.?\d+)*)?"
    rf"(?:[/:]\d+)?{_NO_W_AFTER}"
    # of devices, books and telephones; hashes
    rf"|(?:v\d+(?:\.\d+)*|0x{_HEX}+|(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}|{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
    rf"|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{7,}}|(?<!-)\d+(?:-\d+){{3,}}(?:-X)?(?!-)){_NO_W_AFTER}"
    r"|(?<!\+)\+(?=(?:[ ().-]?\d){8})\d{1,3}(?:[ .-]?(?:\d+|\(\d+\)))++)"
    # paths, patterns of files, signs between spaces, the mark of a list, emoticons
    rf"|(?:{_START}|{_START_OR_UNSPACED}(?=[~.]{{0,2}}/[a-z]))[~.]{{0,2}}"
    rf"(?:/(?:[{UNSPACED}][\w-]*|(?:-|{_W})+)(?:\.{_W}+)*){{2,}}/?"
    rf"|{_START}/[a-z](?:-|{_W})++(?!/)"
    rf"|{_START_OR_UNSPACED}[~.]{{1,2}}/(?:[.-]|{_W})*{_W}|{_START_OR_UNSPACED}(?:\*\*/)?\*\.{_W}+"
    rf"|(?:{_START}(?:::|<3)|{_START_OR_UNSPACED}(?:&&|!==?|\$[$@#?!*]))(?![^\s.,?\"”{UNSPACED_TEXT}])"
    r"|(?<!\S)-*+[<>=^~#@|\\*_·][<>=^~#@|\\*_·»-]*+(?!\S)|^ *»+(?= )"
    r"|^ *(?:[-–—+]|\d{1,2}[.)]|[A-Za-z]\))(?= )|(?<!\S)[:;=]['-]?[()DPOp/\\|*]+(?!\S)"
    rf"|\|+|[⌘⌥⇧⌃]+\w|§[0-9a-fk-or](?!\d)|[{_SYMBOLS}][{_SYMBOLS}{_JOINERS}]*|[#*0-9]\ufe0f?\u20e3|{ITEM}"
)
# Within a word, `[b]` is an item only with a closing tag in the line: `[n]ame` has none.
_SPLIT, _SPLIT_BBCODE = re.compile(f"({_KNOWN})"), re.compile(f"({_KNOWN}|{_BBCODE})")
# Signs that every item has, and few lines have: a search for them takes a tenth of the time of a split.
_SIGNS = re.compile(
    rf"[<>{{}}[\]$%&@\\`#^_=~|*/+{_SYMBOLS}{ITEM}\u20e3]|[.:!]\w|--|-[A-Za-z](?![A-Za-z0-9])|\(\)"
    r"|0x|[a-f]\d|\d[a-f]|\d-\d+-|::|[:;]['-]?[()DPOp]|v\d"
    r"|^ *(?:[-–—]|\w{1,2}[.)])"
)
# An unknown chunk is an item if it has a letter, and a character of code or a sign between letters.
_CHUNK, _LETTER = re.compile(rf"([^\s{UNSPACED_TEXT}]+)"), re.compile(r"[^\W\d]")
_CODE = re.compile(
    r"[{}<>^_=~\\]|\$(?!\d)|(?<!\d)%(?=[\w{(<])|[#@](?=\w)|[A-Za-z]\+[A-Za-z]"
    r"|[A-Za-z0-9/][A-Za-z0-9]\.(?:[a-z][a-z0-9]|[A-Z]{3,4}\b)|/[\w-]{2,}\.[a-z]\b|[a-z]\[\d*\]|::"
)
_AROUND = ("([{\"'“‘«（「『《", ".,;:!?…)]}\"'”’»。，、；：！？）」』》")
_BRACKETS = {"'": "'", '"': '"', "(": ")", "[": "]", "“": "”", "‘": "’", "«": "»", "（": "）", "「": "」"}
_TAG = re.compile(r"<(/?)([A-Za-z0-9][\w:.-]*).*?(/?)>|\[(/?)(b|i|u|s|url|code|color|size|quote)(?:=[^]]*)?()\]")
# Elements of HTML without an end tag, and those that contain sentences: their tags are no pairs around words.
_NO_PAIRS = re.compile(
    "area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr|p|li|[uod]l|d[td]|div|h[1-6]|table|t[rdh]|thead|tbody"
    "|tfoot|caption|blockquote|pre|section|article|header|footer|aside|nav|main|option|title|figure|figcaption|form|label"
    "|legend|button",
    re.IGNORECASE,
)
_DEEPEST = 50  # pairs inside each other; items further inside are single


def read(line: str) -> Line:
    """Find the items of a line. Invisible characters are left out, and all white space becomes spaces."""
    line = visible(line)
    if not _SIGNS.search(line):
        return Line(line)
    pieces = list[str]()  # texts at even indices, items at odd ones
    for index, piece in enumerate((_SPLIT_BBCODE if "[/" in line else _SPLIT).split(line)):
        pieces += [piece] if index % 2 else _with_unknown(piece)
    for i in range(1, len(pieces), 2):  # brackets and quotes around an item belong to it
        while _BRACKETS.get(pieces[i - 1][-1:]) == pieces[i + 1][:1] != "" and not _TAG.fullmatch(pieces[i]):
            pieces[i] = pieces[i - 1][-1] + pieces[i] + pieces[i + 1][0]
            pieces[i - 1], pieces[i + 1] = pieces[i - 1][:-1], pieces[i + 1][1:]
    items, emphasis = list[Item](), set[str]()
    for text in pieces[1::2]:
        if text in ("**", "***", "~~"):
            items.append(Item(text, "closing" if text in emphasis else "opening", text))
            emphasis ^= {text}
        else:
            items.append(item_of(text))
    return Line(ITEM.join(pieces[::2]), tuple(items))


def item_of(text: str) -> Item:
    """Return the item with this text.

    >>> item_of("</b>")
    Item(text='</b>', role='closing', name='b', is_markup=False)
    """
    if tag := _TAG.fullmatch(text):
        closes, name, is_empty = tag.group(1, 2, 3) if tag[2] else tag.group(4, 5, 6)
        if not is_empty and not _NO_PAIRS.fullmatch(name):
            return Item(text, "closing" if closes else "opening", name)
    if text == "[" or text.startswith("]("):  # a link of Markdown
        return Item(text, "opening" if text == "[" else "closing", "[")
    return Item(text)


def pairs_of(items: Sequence[Item]) -> dict[int, int]:
    """Return the index of the closing item by the index of its opening item; pairs are nested or disjoint.

    >>> pairs_of(read("<b>{0} <i>x</b> y</b></i>").items)
    {0: 3}
    """
    opened, pairs = list[int](), dict[int, int]()
    for index, item in enumerate(items):
        if item.role == "opening" and len(opened) < _DEEPEST:
            opened.append(index)
        elif item.role == "closing" and item.name in [items[index].name for index in opened]:
            while items[opened[-1]].name != item.name:  # an opening item without a closing one
                opened.pop()
            pairs[opened.pop()] = index
    return pairs


def _with_unknown(text: str) -> list[str]:
    """Split a text; the parts at odd indices are chunks that look like code."""
    pieces, rest = list[str](), ""
    for chunk in _CHUNK.split(text):
        middle = chunk.lstrip(_AROUND[0]).rstrip(_AROUND[1])
        for opening, closing in ("()", "[]"):  # those of a call stay: `f(x)`
            if middle and (unclosed := middle.count(opening) - middle.count(closing)) > 0:
                ends = chunk.partition(middle)[2].split(closing)[: unclosed + 1]
                middle += closing.join([*ends[:-1], ""]) if len(ends) > 1 else ""
        if _CODE.search(middle) and _LETTER.search(middle):
            before, _, after = chunk.partition(middle)
            pieces += [rest + before, middle]
            rest = after
        else:
            rest += chunk
    return [*pieces, rest]
