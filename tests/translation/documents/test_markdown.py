"""Markdown: which texts are translated, links and emphasis, and everything that stays."""

import pytest
from markdown_it import MarkdownIt

from tests.time_limit import seconds_of_the_processor
from tests.translation.documents.writing import read, texts, translated

PAGE = """---
title: not this
---

# A *title* #

A paragraph of
two lines with `not this`, a [link](http://x.org/a_(b) "t") and ![image](not_this.png).
Hard\\
break, **bold _and_ more**, a_b_c, 2 * 3 * 4 \\* 5 <b>x</b> <http://not.this>

* [x] one[^1]
  * two
    continued
1. three

> quoted
> twice

| a | b \\| `x` |
|---|:-:|
| one | two |

```sh
not this
```

    not this

<div>
not this
</div>

[ref]: http://not.this "not this"
Term
: Defined

!!! note "not this"
    Body

> [!NOTE]
> Of GitHub

[^1]: One note.
[^two]: Two,
    continued

:::tip
In a box
:::

Setext
------
See [the text][ref], [ref][], and *[Ref]*.
"""
TEXTS = [
    "A *title*",
    "A paragraph of two lines with `not this`, a [link](http://x.org/a_(b) \"t\") and ![image](not_this.png). Hard\\\n"
    "break, **bold _and_ more**, a_b_c, 2 * 3 * 4 \\* 5 <b>x</b> <http://not.this>", "[x] one[^1]", "two continued",
    "three",
    "quoted twice", "a", "b \\| `x`", "one", "two", "Term", "Defined", "Body", "Of GitHub",
    "One note.", "Two, continued", "In a box", "Setext",
    "See [the text][ref], [ref][ref], and *[Ref][Ref]*.",
]  # fmt: skip


def structure(page: str) -> list[tuple[str, str]]:
    """Return the blocks and the codes of their texts, as markdown-it-py reads them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    return [
        (one.type, str(one.attrs)) for token in tokens for one in (token, *(token.children or ()))
        if one.type not in ("text", "softbreak")
    ]  # fmt: skip


def test_texts_are_translated_and_codes_stay() -> None:
    document = read("markdown", PAGE)
    assert texts(document) == TEXTS
    assert translated(document, str).decode() == PAGE
    made = translated(read("markdown", PAGE)).decode()
    assert structure(made) == structure(PAGE)
    expected = (
        PAGE.lower().replace("\n> twice", " twice").replace("[ref][]", "[ref][ref]").replace("*[ref]*", "*[ref][ref]*")
    )
    assert made.lower().split() == expected.split()
    assert made.count("not this") == PAGE.count("not this")


def test_links_and_emphasis_are_pairs() -> None:
    ((line, _),) = read("markdown", "See [*the* page](a.html), **now**.").texts.entries
    assert [(item.text, item.role) for item in line.items] == [
        ("[", "opening"), ("*", "opening"), ("*", "closing"), ("](a.html)", "closing"), ("**", "opening"),
        ("**", "closing"),
    ]  # fmt: skip
    ((line, _),) = read("markdown", r"a\_b: (_x_) 2 * 3 * 4 **(a)** b").texts.entries
    assert [(item.text, item.role) for item in line.items] == [
        (r"a\_b", "single"), ("_", "opening"), ("_", "closing"), ("*", "single"), ("*", "single"),
        ("**", "opening"), ("**", "closing"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "code", ["$a, b$", "$$\nx = a (y)\n$$", r"\(a, b\)", "\\[\na\n\\]", "\\begin{align}\na &= b\n\\end{align}"]
)
def test_mathematics_stays(code: str) -> None:
    text = f"Let {code} be\n\n{code}\n"
    assert translated(read("markdown", text)).decode() == f"LET {code} BE\n\n{code}\n"
    assert texts(read("markdown", "It is $5 and $6 here.")) == ["It is $5 and $6 here."]


def test_many_spaces_within_a_line_take_linear_time() -> None:
    text = f"a{' ' * 100_000}b"
    with seconds_of_the_processor():
        assert translated(read("markdown", text), str).decode() == text


def test_mathematics_that_is_not_closed_takes_linear_time() -> None:
    for text in ("\\(a " * 30_000, "\\[a " * 30_000, "\\begin{a} " * 10_000):
        with seconds_of_the_processor(5):
            assert translated(read("markdown", text), str).decode() == text
    (paragraph, _), *_ = read("markdown", r"Let \(a \[b\] and \(c\) be.").texts.entries
    assert [item.text for item in paragraph.items] == ["\\(", r"\[b\]", r"\(c\)"]


@pytest.mark.parametrize(
    "url",
    [
        "https://b.org/_a/page",
        "https://b.org/A_(b)",
        "https://b.org/__b__/c.js",
        "http://b.org/*/b*_c",
        '"http://b.org/_c"',
    ],
)
def test_underscores_and_asterisks_in_an_address_are_no_emphasis(url: str) -> None:
    text = f"See {url}, or (*{url}*). _It_ is.\n"
    expected = f"SEE {url}, OR (*{url}*). _IT_ IS.\n"
    assert translated(read("markdown", text)).decode() == expected


def test_hard_line_breaks_are_written_as_in_the_file() -> None:
    text = "> One  \r\n> two\\\r\n> three\r\n\r\n* One  \r\n  two\r\n"
    assert translated(read("markdown", text)).decode() == text.upper()


def test_links_of_wikis_and_imports_stay() -> None:
    text = 'import Tabs from "@theme/Tabs";\n\nSee [[The page|a page]] and [[1]](#a).\n\n\\newpage\n'
    expected = text.replace("See", "SEE").replace(" and ", " AND ")
    assert translated(read("markdown", text)).decode() == expected
