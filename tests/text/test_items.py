"""Items of lines: forms of placeholders and markup in sentences, ordinary text, and properties of any text."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.items import ITEM, Line, item_of, joined, read
from nmt.text.normalize import visible

# Of gettext, Qt, Ruby, Elixir, shells, Go, Laravel, Symfony, Drupal, i18next, Vue, .NET, Python, Java, Swift, Fluent.
_FORMS = r"""
{{{name}}} ${user.name} ${user['name']} {items[0]} {name!r} {0!s} {price:>10} {0:#,##0.00} %{count} %<count>s
%{count:d} %% %n %(n)02d %(price).2f :name @count @:key @:{key} $t(key) $NAME$ #{name} [[name]] __name__ %PATH%
%user_name% ~name~ {$obj->name} &{name} {{&x}} {{^x}} %'d %1$'d %a %qd %*d %.*f {} {:d} {:.2f} @@name@@ {=name}
\(name) %tY %1$tY %,d %1$,d %#@x@ %arg $[x] $(x) \u00a0 `x` {{t('x')}} #name {#x} {name?} {/x} %[1]s %v %q %T
{{.Name}} {0} {name} {{name}} ${name} {user.name} {0:N2} {0,10} %s %1$s %1$@ %@ %lu %lld %5.2f %-10s %1 %L1
%(name)s {{name.first}} {{-name}} %i %+d %05d %zu <name> &name; &#39; {\an8} https://b.org/x?y=1&z=2 www.b.org
a.b+c@d-e.co.uk :smile: <br/> <%=x%> 😀 ♪ 👩‍👩‍👧 --help v1.2.3-rc1 main.py !name /etc/hosts 10.0.0.1
"""
_SPACED = "{date, date, short};{% name %};{{ v | filter }};{{#if x}};{user name};{ -brand };<a href='x>y'>"
FORMS = [*_FORMS.split(), *_SPACED.split(";")]
SENTENCES = ["I like {} very much.", "{} files were found.", "Look at {}.", "He has {}, I think.", 'Is it "{}"?']
TEXT = st.lists(st.sampled_from([*FORMS, *"ab .,:'\"()[]{}<>%$#@&|\\`*_~^=+-/1", " ", "<b>", "</b>", "中", "，", ITEM]))


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_items_in_sentences(form: str) -> None:
    for sentence in SENTENCES:
        before, after = sentence.split("{}")
        line = read(f"{before}{form}{after}")
        assert [item.text.strip('"') for item in line.items] == [form]
        assert re.sub(r"\W", "", line.text) == re.sub(r"\W", "", before + after), "and nothing else is"


@pytest.mark.parametrize(
    "text",
    [
        "It's 5 p.m., e.g. in the U.S.: \"Mr. O'Neil\" paid $30 (or €25.50) - 50% more; really?!",
        "A well-known R&D team, 12:30, 24/7, 1,000.5 km, 3.14, and/or 10–12 °C… Tom's “big” one; A. B. Smith.",
        "Vale 1.000.000 di euro, cioè l'80% in più. E poi? Sì!",
        "我喜欢咖啡，车站在哪里？“好”，他说（真的）。",
    ],
)
def test_ordinary_text_has_no_items(text: str) -> None:
    assert read(text) == Line(text)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("See https://b.org/wiki/Rome_(city), or (https://c.org/a).", ["https://b.org/wiki/Rome_(city)", "(https://c.org/a)"]),
        ("访问https://b.org/a。在https://b.org免费", ["https://b.org/a", "https://b.org"]),
        ("[n]ame, [MOTOR_ID][b] and [b]x[/b]", ["[MOTOR_ID]", "[b]", "[b]", "[/b]"]),
        ("Argument '{0}' of “%s”", ["'{0}'", "“%s”"]),
        ("100% sure, 50%discount, 5 < 6", ["<"]),
        ("a List<Array<T>>", ["List<Array<T>>"]),
        ("1. First", ["1."]),
        ("- First", ["-"]),
        ("One | two || three|four", ["|", "||", "|"]),
        (r"One\nTwo\\n", ["\\n", "\\\\"]),
        ("Ctrl+C copies foo() of a_b", ["Ctrl+C", "foo()", "a_b"]),
        ("{n, plural, one {# file} other {# files}}", ["{n, plural, one {# file} other {# files}}"]),
    ],
)  # fmt: skip
def test_items_of_examples(text: str, items: list[str]) -> None:
    assert [item.text for item in read(text).items] == items


def test_roles_and_names() -> None:
    line = read("<p>A <b class='x'>%d</b> **big** <img src='a'> [i]x[/i]<br/>{0}")
    assert [(item.role, item.name) for item in line.items] == [
        ("break", ""), ("opening", "b"), ("single", ""), ("closing", "b"), ("opening", "**"), ("closing", "**"),
        ("single", ""), ("opening", "i"), ("closing", "i"), ("break", ""), ("single", ""),
    ]  # fmt: skip
    named = ["{0}", "%1$s", "{name}", "%(n)d", "https://b.org", ":name", "%2", "$HOME"]
    assert [item_of(text).is_named for text in named] == [True] * len(named)
    unnamed = ["%s", "%ld", "{}", "%%", "&amp;", "😀", "</b>", "\\u00e9", "->", "%-10.2f"]
    assert [item_of(text).is_named for text in unnamed] == [False] * len(unnamed)


@given(TEXT.map("".join) | st.text())
def test_line_is_the_text_and_every_cut_of_it_too(text: str) -> None:
    line = read(text)
    assert str(line) == visible(text)
    assert line.text.count(ITEM) == len(line.items)
    ends = sorted({len(line.text) // 3, len(line.text) // 2})
    assert joined(line.cut(ends)) == line
    assert [part.text for part in line.cut(ends)][1:-1] == [line.text[ends[0] : ends[-1]]] * (len(ends) - 1)
    for item in line.items:
        rest = line.without(item)
        assert sorted([*rest.items, item]) == sorted(line.items)
        assert "".join(rest.text.split()) == "".join(line.text.replace(ITEM, "", 1).split()) or len(line.items) > 1


@pytest.mark.parametrize(
    "unit",
    [*"(<{%`*&\\~|.:@/-+[$=", "<a ", "{a", "{{", "<!--", "%a", "$a(", "``a", "a@", "http://(", "a.", "v1.", "1.", "x_",
     "😀", ITEM, "<a '", "::a", "a-", "a(", "[url=", "mailto:", "<b></i>"],
)  # fmt: skip
def test_items_of_100000_characters_take_linear_time(unit: str) -> None:
    """Each of these texts takes minutes in quadratic time."""
    text = (unit * 100_000)[:100_000]
    started = time.process_time()
    assert str(read(text)) == text
    assert time.process_time() - started < 6
