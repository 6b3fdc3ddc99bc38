"""Items of lines: forms of placeholders and markup in sentences, ordinary text, and properties of any text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.items import ITEM, Line, joined, pairs_of, read
from nmt.text.normalize import visible
from tests.time_limit import seconds_of_the_processor

# Of gettext, Qt, Ruby, Elixir, shells, Go, Laravel, Symfony, Drupal, i18next, Vue, .NET, Python, Java, Swift, Fluent.
_FORMS = r"""
{{{name}}} ${user.name} ${user['name']} {items[0]} {name!r} {0!s} {price:>10} {0:#,##0.00} %{count} %<count>s
%{count:d} %% %n %(n)02d %(price).2f :name @count @:key @:{key} $t(key) $NAME$ #{name} [[name]] __name__ %PATH%
%user_name% ~name~ {$obj->name} &{name} {{&x}} {{^x}} %'d %1$'d %a %qd %*d %.*f {} {:d} {:.2f} @@name@@ {=name}
\(name) %tY %1$tY %,d %1$,d %#@x@ %arg $[x] $(x) \u00a0 `x` {{t('x')}} #name {#x} {name?} {/x} %[1]s %v %q %T
{{.Name}} {0} {name} {{name}} ${name} {user.name} {0:N2} {0,10} %s %1$s %1$@ %@ %lu %lld %5.2f %-10s %1 %L1 10.0.0.1
%(name)s {{name.first}} {{-name}} %i %+d %05d %zu <name> &name; &#39; {\an8} https://b.org/x?y=1&z=2 www.b.org
a.b+c@d-e.co.uk :smile: <br/> <%=x%> 😀 ♪ 👩‍👩‍👧 --help -o img/a.png src/main.c v1.2.3-rc1 main.py !name /etc/hosts /tmp
$1 {{PLURAL:$1|{{PLURAL:$2|a|b}}|c}} @lang('x') @if($x) _("x") \(f(x)) \emph{x} \alpha :py:class:`~a.b` `text`_ ```x```
<@123> <@!12> <#C02|general> <!subteam^S1|all> <:smile:12> [/gallery] [^1] ![img](a.png) {n}% -{n} {n}px %20 !TOKEN!
C:\Users\me\file.txt \\server\share D:/data/x ../x *.py photo.JPG https://b.org/{id} https://{host}/x localhost:8080
git@b.org:a/c.git doi:10.1000/xyz tel:+123 a::b fe80::1%eth0 00:1B:44:11:3A:B7 978-3-16-148410-0 0x1F 192.168.0.0/24
1.0.0-beta.2 550e8400-e29b-41d4-a716-446655440000 \x1b[0m &amp;nbsp; ⌘C §c != && :: <3 @.lower:key
@.lower:{'key'} @:(key) f(x).y[0][1]
"""
_SPACED = "{date, date, short};{% name %};{{ v | filter }};{{#if x}};{user name};{ -brand };<a href='x>y'>;\\(x + 1);"
_SPACED += '<a href="<?= x ?>">;<%= a > b %>;<?php echo $x ?>;$t(a, {"n": 1});[gallery id="1"];+39 06 1234567;'
_SPACED += ":ref:`a text <label>`;{n, plural, =0 {no} one {{0} file} other {{n} {m} {{x}} files}}"
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


_BESIDE_CHINESE = r"""
v1.2.3-rc1 192.168.0.0/24 v2 b.com localhost:8080 print() 0x1F Ctrl-C --with-x /usr/local/bin ~/.bashrc *.txt C:\a.b
{n}px 550e8400-e29b-41d4-a716-446655440000 978-3-16-148410-0 +86-10-1234-5678 deadbeef1 :ref:`x` https://b.org/x \alpha
$1 -o && $?
"""


@pytest.mark.parametrize("form", _BESIDE_CHINESE.split())
@pytest.mark.parametrize(("before", "after"), [("请看", "在内"), ("“", "”，谢谢"), ("用", "。谢谢")])
def test_forms_are_items_beside_chinese(form: str, before: str, after: str) -> None:
    assert [item.text.strip("“”") for item in read(before + form + after).items] == [form]


@pytest.mark.parametrize(
    "text",
    [
        "It's 5 p.m., e.g. in the U.S.: \"Mr. O'Neil\" paid $30 (or €25.50) - 50% more; really?!",
        "A well-known R&D team, 12:30, 24/7, 1,000.5 km, 3.14, and/or 10–12 °C… Tom's “big” one; A. B. Smith.",
        "Vale 1.000.000 di euro, cioè l'80% in più. E poi? Sì!",
        "我喜欢咖啡，车站在哪里？“好”，他说（真的）。",
        "Marie achète « un chat » en ville 24/7 : voilà ; 50 % de R&D.",
    ],
)
def test_ordinary_text_has_no_items(text: str) -> None:
    assert read(text) == Line(text)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("See https://b.org/wiki/Rome_(city), or (https://c.org/a).", ["https://b.org/wiki/Rome_(city)", "(https://c.org/a)"]),
        ("访问https://b.org/a。在https://b.org免费", ["https://b.org/a", "https://b.org"]),
        ("访问 https://b.org/wiki/苹果_(公司)。b.org/s?q=中文&x=1，见https://b.org/中", [
            "https://b.org/wiki/苹果_(公司)", "b.org/s?q=中文&x=1", "https://b.org/"]),
        ("若x<b且y>z，共$5万，<3岁，A组-B组，如::", ["x<b", "y>z"]),
        ("打开C:\\用户\\张三 或/home/用户/a.txt。中/英/etc", ["C:\\用户\\张三", "/home/用户/a.txt"]),
        ("[n]ame, [MOTOR_ID][b] and [b]x[/b]", ["[MOTOR_ID]", "[b]", "[b]", "[/b]"]),
        ("Argument '{0}' of “%s”", ["'{0}'", "“%s”"]),
        ("100% sure, 50%discount, 5 < 6", ["<"]),
        ("a List<Array<T>>", ["List<Array<T>>"]),
        ("1. First", ["1."]),
        ("- First", ["-"]),
        ("-I saw -X. -E poi?", ["-X"]),
        ("La casa -y el perro- son. It -I think- has -a and ex-b", ["-a"]),
        ("He saw him/her.They and src/a/main.c.", ["src/a/main.c"]),
        ("%s%d of [the terms](https://b.org)", ["%s", "%d", "[", "](https://b.org)"]),
        ("[i](a word)[/i], [a](see b)", ["[i]", "[/i]"]),
        ("It is $5 million, not $5.50 or $20.", []),
        ("One | two || three|four", ["|", "||", "|"]),
        (r"One\nTwo\\n", ["\\n", "\\\\"]),
        ("Ctrl+C copies foo() of a_b", ["Ctrl+C", "foo()", "a_b"]),
        ("{n, plural, one {# file} other {# files}}", ["{n, plural, one {# file} other {# files}}"]),
    ],
)  # fmt: skip
def test_items_of_examples(text: str, items: list[str]) -> None:
    assert [item.text for item in read(text).items] == items


def test_roles() -> None:
    line = read("<p>A <b class='x'>%d</b> **big** <img src='a'> [i]x[/i]<br/>{0}")
    assert [(item.role, item.name) for item in line.items] == [
        ("single", ""), ("opening", "b"), ("single", ""), ("closing", "b"), ("opening", "**"), ("closing", "**"),
        ("single", ""), ("opening", "i"), ("closing", "i"), ("single", ""), ("single", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("<b>x</b> <i>y</i>", {0: 1, 2: 3}),
        ("{0} [x](a.md) y", {1: 2}),
        ("<b>{0} <i>x</i></b>", {0: 4, 2: 3}),
        ("<b><i>x</b>y</i></b>", {0: 2}),
        ("</b><v Bob>x **y** <b>", {2: 3}),
        ("<b>" * 60 + "</b>" * 60, {49 - i: 60 + i for i in range(50)}),
    ],
)
def test_pairs_of_examples(text: str, pairs: dict[int, int]) -> None:
    assert pairs_of(read(text).items) == pairs


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
     "😀", ITEM, "<a '", "::a", "a-", "a(", "[url=", "mailto:", "<b></i>",
     "<?", "<%a", "[](", "[a", "](a.", "[a](a.", "\\(", ":a", "f((", "0-", "0:", "ab0", "[a a=",
     "+1 ", "http://a/中", "a.com/中(", "{}{", "``` ", '<a "<?'],
)  # fmt: skip
def test_items_of_40000_characters_take_linear_time(unit: str) -> None:
    """Quadratic time of a single pattern is more than a second, that of Python half a minute."""
    text = (unit * 40_000)[:40_000]
    with seconds_of_the_processor(1):
        assert str(read(text)) == text
