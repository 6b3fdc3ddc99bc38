"""HTML and Android's strings: which texts are translated, items, attributes, and everything that stays."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from nmt.errors import DataError
from nmt.translation.documents.translating import html_document
from tests.time_limit import seconds_of_the_processor
from tests.translation.documents.writing import read, texts, translated

PAGE = """<!DOCTYPE html>
<html lang="en"><head><title>My page</title><meta name="description" content="About &amp; more"><style>p {}</style>
<meta name="x" content="not this"><script>if (a < b) { "<p>not this</p>" }</script></head>
<body class="notranslated">
  <h1>&nbsp;Hello <em title="Good">world</em>&nbsp;&lt;3</h1><!-- not this -->
  <p><ruby>Kanji<rp>(</rp><rt>not this</rt><rp>)</rp></ruby> here</p><p>One&nbsp;line<br>and <a href="x?a=1&b=2">another
     one</a> with <code>code &lt;b&gt;</code>.<img src="a.png" alt="A cat">
  <ul><li>First<li>Second</ul>
  <pre>not <b>this</b></pre><p translate="no">not this</p><input placeholder='Your "name"' value="x">
  <input type=submit value="Send now"><p><img class=b alt=b></p>
  Loose text <span class="notranslate">not this</span> <div></div><p>  </p>
</body></html>
"""
HTML_TEXTS = [
    "My page", "About & more", "Good", '&nbsp;Hello <em title="Good">world</em>&nbsp;<3',
    "<ruby>Kanji<rp>(</rp><rt>not this</rt><rp>)</rp></ruby> here", "A cat",
    'One line<br>and <a href="x?a=1&b=2">another one</a> with <code>code &lt;b&gt;</code>.'
    '<img src="a.png" alt="A cat">',
    "First", "Second", 'Your "name"', "Send now", "b", 'Loose text <span class="notranslate">not this</span>',
]  # fmt: skip


class Outline(HTMLParser):
    """The tags of a page and its texts, as the standard library reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.text = list[object](), ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, [name for name, _ in attrs]))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_texts_and_attributes_of_a_page_are_translated() -> None:
    document = read("html", PAGE)
    assert texts(document) == HTML_TEXTS
    made = translated(document).decode()
    before, after = Outline(PAGE), Outline(made)
    assert after.tags == before.tags
    assert after.text.upper().split() == before.text.upper().split()
    for part in (
        "HELLO <em",
        "&lt;3</h1>",
        "<li>FIRST<li>SECOND</ul>",
        'title="GOOD"',
        'content="ABOUT &amp; MORE"',
        'alt="A CAT"',
        "placeholder='YOUR &quot;NAME&quot;'",
        '<input type=submit value="SEND NOW"><p><img class=b alt="B"></p>',
    ):
        assert part in made
    assert made.count("not this") + made.count("not <b>this</b>") == PAGE.count("not this") + 1


def test_inline_elements_are_pairs_and_breaks_end_a_sentence() -> None:
    ((line, _),) = read("html", "Go <B>on</B><br/>by <i>car<img src=a></i> <!-- x -->or").texts.entries
    found = [(item.text, item.role, item.name) for item in line.items]
    assert found == [
        ("<B>", "opening", "b"), ("</B>", "closing", "b"), ("<br/>", "single", "br"), ("<i>", "opening", "i"),
        ("<img src=a>", "single", "img"), ("</i>", "closing", "i"), ("<!-- x -->", "single", ""),
    ]  # fmt: skip
    assert all(item.is_markup for item in line.items)


PARTS = ["<p>", "</p>", "<b>", "</i>", "<br>", "<", ">", "&", "&amp;", "a", " ", "\n", '"', "<a href='", "<!--", "-->",
         "<code>", "</code>", "<script>", "</script>", "<?", "<img alt='x'>", "<pre>", "{{x}}", "<a b=\"",
         "è"]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join), st.sampled_from(["html", "markdown"]))
def test_damaged_pages_stay_byte_for_byte(page: str, format_: str) -> None:
    assert translated(read(format_, page), str).decode() == page


@given(
    st.lists(
        st.sampled_from([part for part in PARTS if part not in ("<a href='", '<a b="', "<!--", "<?")]), max_size=14
    )
)
def test_translated_pages_have_the_tags_of_the_original(parts: list[str]) -> None:
    page = "".join(parts)
    assert Outline(translated(read("html", page)).decode()).tags == Outline(page).tags


def test_long_damaged_pages_take_linear_time() -> None:
    parts = ("<a ", "<a '", "<code>", "<!-- ", "<p", "&", "<a b=\"'", "{{", "<?", "{% ", '<p a="<?', '<p a="{{')
    parts += ('<p a="{{ x }}', "<p a='[% ")
    for text in (*(part * 10_000 for part in parts), "<a " + 200_000 * "x" + ">b</a>"):
        with seconds_of_the_processor():
            assert translated(read("html", text), str).decode() == text


def test_entities_and_references_in_strings_of_android_stay() -> None:
    text = """<!DOCTYPE resources [<!ENTITY app "Cats">]>
<resources>
    <string name="a">Open &app; &amp;app; and \\&quot;go\\&apos;</string>
    <string name="b">?attr/colour</string>
    <string name="c"> @android:string/ok </string>
</resources>"""
    document = read("android", text)
    assert [line.text.replace("\ufffc", "#") for line, _ in document.texts.entries] == ["Open # # and \"go'"]
    made = translated(document).decode()
    assert "OPEN &app; &amp;app; AND \\\"GO\\'<" in made
    assert ">?attr/colour<" in made
    assert "> @android:string/ok <" in made


def test_damaged_strings_of_android_are_an_error() -> None:
    with pytest.raises(DataError, match=r"^a:2: not XML: .*string"):
        read("android", "<resources>\n<string>Open</sting></resources>")


def test_pages_are_decoded_as_browsers_decode_them() -> None:
    for declared, encoding in ("iso-8859-1", "cp1252"), ("us-ascii", "cp1252"), ("gb2312", "gbk"):
        data = f'<meta charset="{declared}"><p>It’s</p>'.encode(encoding)
        assert translated(read("html", data), lambda line: f"{line}!") == data.replace(b"s<", b"s!<")


def test_codes_of_characters_in_strings_of_android_stay_whole() -> None:
    text = r'<resources><string name="a">Go \u2014 now\u00bb</string></resources>'
    assert r"\u2014 " in (made := translated(read("android", text)).decode())
    assert r"\u00bb</string>" in made


ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <!-- not this -->
    <string name="a">I don\\'t know &amp; \\"you\\"</string>
    <string name="b" translatable="false">not this</string>
    <string name="h">"two  words"</string>
    <string name="c">Hi <b>there</b>,\\n <xliff:g id="n" example="not this">%1$s</xliff:g>!</string>
    <string-array name="d"><item>One</item><item>Two</item></string-array>
    <plurals name="e"><item quantity="one">%d cat</item><item quantity="other">%d cats</item></plurals>
    <style name="f"><item name="g">not this</item></style>
    <string name="i"><![CDATA[<b>a</b> & b &amp; c]]></string><item type="string" name="j">Three</item>
    <string name="k" translatable='false'>not this</string>
    <string-array translatable="false"><item>not this</item></string-array>
</resources>
"""


def test_strings_of_android_are_translated() -> None:
    document = read("android", ANDROID)
    assert [line.text.replace("\ufffc", "#") for line, _ in document.texts.entries] == [
        'I don\'t know & "you"', "#two words#", "Hi #there#,# #!", "One", "Two", "# cat", "# cats",
        "##a# & b # c#", "Three",
    ]  # fmt: skip
    assert translated(document, str).decode() == ANDROID
    made = translated(read("android", ANDROID)).decode()
    assert made.count("not this") == ANDROID.count("not this")
    assert 'I DON\\\'T KNOW &amp; \\"YOU\\"<' in made
    assert '>"TWO WORDS"<' in made
    assert "<![CDATA[<b>A</b> & B &amp; C]]>" in made
    assert "HI <b>THERE</b>,\\n <xliff:g" in made
    assert [element.tag for element in etree.fromstring(made.encode()).iter()] == [
        element.tag for element in etree.fromstring(ANDROID.encode()).iter()
    ]


@pytest.mark.parametrize("format_", ["html", "android"])
def test_text_in_an_encoding_of_the_file_is_written_in_it(format_: str) -> None:
    start = (
        '<meta charset="iso-8859-1">' if format_ == "html" else '<?xml version="1.0" encoding="iso-8859-1"?><resources>'
    )
    end = "" if format_ == "html" else "</resources>"
    data = f'{start}<string name="a">è</string>{end}'.encode("latin-1")
    assert translated(read(format_, data)) == data.replace("è".encode("latin-1"), "È".encode("latin-1"))
    assert b"&#9731;" in translated(read(format_, data), lambda _: "\u2603")


def test_elements_in_a_third_language_stay_and_text_areas_have_attributes() -> None:
    page = '<html lang="en"><p lang="fr">Non</p><p lang="en-GB">Yes</p><textarea placeholder="Your name">no</textarea>'
    page += '<textarea translate="no" placeholder="Stays">no</textarea>'
    document = read("html", page)
    assert texts(document) == ["Yes", "Your name"]
    assert translated(document).decode() == page.replace("Yes", "YES").replace("Your name", "YOUR NAME")
    assert texts(html_document(page)) == ["Non", "Yes", "Your name"]  # for any languages


@pytest.mark.parametrize(
    "code", ["{% if a > 0 and b < 3 %}", '{{ a|default("b & c") }}', "{{> a}}", "{{ a && b }}", "[% IF a > b %]"]
)
def test_code_of_templates_has_no_entities(code: str) -> None:
    text = f"<p>{code}Hello &amp; {code} bye</p><a title='{code} hello'></a>\n"
    expected = text.replace("H", "h").replace("hello", "HELLO").replace(" bye", " BYE")
    assert translated(read("html", text)).decode() == expected


def test_items_of_other_types_than_string_stay() -> None:
    text = (
        '<resources><plurals name="a"><item quantity="one">One file</item></plurals>\n'
        '<item type="dimen" name="b">16dp</item><string name="c">\n    Two\n  lines\n</string></resources>\n'
    )
    assert texts(read("android", text)) == ["One file", "Two lines"]
    expected = text.replace("One file", "ONE FILE").replace("Two\n  lines", "TWO LINES")
    assert translated(read("android", text)).decode() == expected
    assert b"<item>a\\\\ B" in translated(
        read("android", '<resources><string-array name="a"><item>a b</item></string-array></resources>'),
        lambda text: "a\\ B",
    )


@pytest.mark.parametrize(
    ("format_", "text"),
    [("html", "<p>{}</p>"), ("android", '<resources><string name="a">{}</string></resources>')],
)
def test_messages_of_icu_are_named(format_: str, text: str) -> None:
    document = read(format_, text.format("{n, plural, one {a} other {b}}"))
    assert document.texts.kept == {"message of ICU with a plural or select": ["line 1"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("""<p class="<?php echo "a>b"; ?>">Hello""", "Hello"), ("""<option <?= $a->b ?> value="a">Hello""", "Hello"),
        ("""<p {% if a > b %}id="a b"{% endif %}>Hello""", "Hello"), ("""<a alt='<% a > b %> hello'></a>""", "hello"),
        ("""<a title="<?= $t ?> hello"></a>""", "hello"), ("""<a id="{{b"> hello</a>""", "hello"),
    ],
)  # fmt: skip
def test_code_of_servers_within_tags_stays(text: str, expected: str) -> None:
    assert translated(read("html", text)).decode() == text.replace(expected, expected.upper())
