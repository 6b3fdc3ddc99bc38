"""Which format an input has, by its first bytes and its name."""

from pathlib import Path

import pytest

from nmt.errors import ConfigError
from nmt.translation.documents.document import Format
from nmt.translation.documents.recognizing import named_format, recognized_format

SRT = "1\n00:00:01,000 --> 00:00:02,000\nHi\n"


def recognized(name: str | None, content: str | bytes) -> Format:
    data = content.encode() if isinstance(content, str) else content
    return recognized_format(None, None if name is None else Path(name), data)


@pytest.mark.parametrize(
    "name", [None, "film.txt", "film.srt.txt", "film", "film.en", "film.TXT.gz", "eng_Latn.devtest"]
)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (SRT, "srt"), ("\ufeff" + SRT.replace("\n", "\r\n"), "srt"), (SRT.encode("utf-16"), "srt"),
        ("WEBVTT\n\n00:01.000 --> 00:02.000\nHi", "vtt"),
        ('{"a": "Hi"}\n', "json"), ('{\n  "a": {\n', "json"), ('[\n {"a": 1}]', "json"), ('["Hi", "Ho"]', "json"),
        ('{"a": "Hi"}\n{"a": "Ho"}\n', "jsonl"),
        ('# x\n#\nmsgid ""\nmsgstr ""\n', "po"), ('msgctxt "a"\nmsgid "b"\n', "po"),
        ('<?xml version="1.0"?>\n<!-- x > y -->\n<xliff version="1.2">', "xliff"),
        ("<!DOCTYPE html>\n<html>", "html"), ('<!-- x -->\n<html lang="en">', "html"),
        ('<?xml version="1.0"?><resources>\n<string name="a">Hi</string>', "android"),
        ('<!-- by <a@b.example> --><!DOCTYPE resources [ <!ENTITY a "b"> ]>\n<resources>\n<string', "android"),
        ("id\ttext\n1\tHi there, you\n2\tHo\n", "tsv"), ('id,text\n1,"Hi, you"\n2,Ho\n', "csv"),
        ("a;b\n1;x\n2;y\n", "csv"), ("name\tcount\na\t123\nb\t 4\n", "tsv"),
        ("{0} files\n", "text"), ("{name} is here\n{name}\n", "text"), ("[b]Hi[/b]\n", "text"),
        ("<b>Hi</b> you\n", "text"), ("# a # b\n" * 99, "text"), ("<!-- x -->\n" * 99, "text"),
        ("<b><i>Hi</i></b>\n<b>Ho</b>\n", "text"), ("# Title\n\nHi\n", "text"), ("1\nHi\n", "text"), ("", "text"),
        ("I like tea, too.\nYes, I do.\nNo, I do not.\n", "text"), ("1,000\n2,000\n3,000\n", "text"),
        ("Hi\tHo\n", "text"),
    ],
)  # fmt: skip
def test_content_decides_for_names_of_text(name: str | None, content: str | bytes, expected: str) -> None:
    assert recognized(name, content) == expected


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.md", "<p align=center>\n <img>", "markdown"), ("a.csv", "Hi\n", "csv"),
        ("a.json", '{"a": 1}\n{"a": 2}\n', "jsonl"),
        ("a.json", SRT, "srt"), ("a.properties", "# x\na=b", "properties"), ("strings.xml", "<resources>", "android"),
        ("a.strings", '"a" = "b";', "strings"), ("app_it.arb", "{}", "json"), ("a.htm", "<p>Hi", "html"),
        ("page.md", "<!DOCTYPE html><html>", "html"),
        ("a.xml", "<xliff>", "xliff"), ("test.zh-CN", "Hi", "text"), ("part.001", "Hi", "text"), ("a. b", "Hi", "text"),
    ],
)  # fmt: skip
def test_name_decides_where_the_content_is_no_sure_sign(name: str, content: str, expected: str) -> None:
    assert recognized(name, content) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *((f"a.{ending}", "Hi", f"a.{ending}: files in the format .{ending} are not translated, and as lines")
          for ending in ("xcstrings", "lrc", "resw", "itt", "plist", "vue", "adoc", "webmanifest", "odt", "yml")),
        ("a.txt", "%PDF-1.7\n", "a.txt: files of PDF, RTF or Office are not translated"),
        (None, b"PK\x03\x04", "standard input: files of PDF, RTF or Office are not translated"),
        (None, '<?xml version="1.0"?>\n<tmx>', "standard input: files of XML are not translated.*or add --format text"),
        ("a.xml", "<root>\n<a>", "a.xml: files of XML are not translated"),
    ],
)  # fmt: skip
def test_other_formats_are_refused(name: str | None, content: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recognized(name, content)


def test_option_has_to_be_a_format() -> None:
    assert recognized_format("srt", Path("a.xyz"), b"") == "srt"
    with pytest.raises(ConfigError, match=r"--format: found sub, expected text, srt"):
        named_format("sub", None)
