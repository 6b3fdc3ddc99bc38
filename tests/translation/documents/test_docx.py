"""Paragraphs of Word's .docx, built and read again by python-docx."""

import sys
from io import BytesIO
from typing import Any

import pytest

from nmt.errors import ConfigError, DataError
from nmt.translation.documents.recognizing import recognized_format
from tests.translation.documents.writing import read, texts, translated

docx = pytest.importorskip("docx")


@pytest.fixture
def data() -> bytes:
    document = docx.Document()
    paragraph = document.add_paragraph("My father ")
    paragraph.add_run("has a ")
    paragraph.add_run("rab").bold = True
    paragraph.add_run("bit & more").bold = True
    paragraph.add_run(" here.")
    document.add_paragraph().add_run("Name:").italic = True
    document.paragraphs[1].add_run("\tthe cat & the dog\nsleep")
    cell = document.add_table(1, 1).cell(0, 0)
    cell.text = "a cell"
    cell.add_table(1, 1).cell(0, 0).text = "a cell inside"
    document.sections[0].header.paragraphs[0].text = "the header"
    document.add_section().footer.is_linked_to_previous = False
    document.sections[1].footer.paragraphs[0].text = "the footer"
    return saved(document)


def saved(document: Any) -> bytes:
    document.save(output := BytesIO())
    return output.getvalue()


def runs(data: bytes) -> list[list[tuple[str, bool | None, bool | None]]]:
    paragraphs = docx.Document(BytesIO(data)).paragraphs
    return [[(run.text, run.bold, run.italic) for run in paragraph.runs] for paragraph in paragraphs]


def test_paragraph_without_a_change_stays(data: bytes) -> None:
    assert runs(translated(read("docx", data), str)) == runs(data)


def test_translation_has_the_formatting_of_its_parts(data: bytes) -> None:
    first, second, *_ = runs(translated(read("docx", data)))
    assert first == [("MY FATHER HAS A ", None, None), ("RABBIT & MORE", True, None), (" HERE.", None, None)]
    assert second[0] == ("NAME:", None, True)
    assert "".join(run[0] for run in second[1:]) == "\tTHE CAT & THE DOG\nSLEEP"


def test_tables_headers_and_footers_are_translated(data: bytes) -> None:
    found = texts(read("docx", translated(read("docx", data))))
    assert {"A CELL", "A CELL INSIDE", "THE HEADER", "THE FOOTER"} <= set(found)


def test_content_is_recognized_and_damage_is_an_error(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert recognized_format(None, None, data[:8192]) == "docx"
    for damaged in (data[:3000], b"Hi", b"PK\x03\x04"):
        with pytest.raises(DataError, match="a: damaged, or no document of Word"):
            read("docx", damaged)
    monkeypatch.setitem(sys.modules, "docx", None)
    with pytest.raises(ConfigError, match="pip install python-docx"):
        read("docx", data)


def test_a_link_with_a_field_stays_one_link() -> None:
    """As Word writes the lines of a table of contents."""
    document = docx.Document()
    field = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
    page = f"{field('begin')}<w:r><w:instrText>PAGEREF a</w:instrText></w:r>{field('separate')}"
    page += f"<w:r><w:t>3</w:t></w:r>{field('end')}"
    runs_of_link = f"<w:r><w:t>The cat</w:t></w:r><w:r><w:tab/></w:r>{page}"
    start = f'<w:hyperlink xmlns:w="{document.element.nsmap["w"]}" w:anchor="_Toc1">'
    link = docx.oxml.parse_xml(f"{start}{runs_of_link}</w:hyperlink>")
    document.add_paragraph()._p.append(link)
    made = docx.Document(BytesIO(translated(read("docx", saved(document))))).paragraphs[0]._p
    (found,) = made.xpath("./w:hyperlink")
    assert [one.text for one in made.xpath(".//w:t")] == ["THE CAT", "3"]
    kinds = [one.get(one.nsmap["w"].join("{}") + "fldCharType") for one in found.xpath(".//w:fldChar")]
    assert kinds == ["begin", "separate", "end"]


def test_moved_text_is_translated_once_and_no_empty_element_is_left() -> None:
    document = docx.Document()
    space = f'xmlns:w="{document.element.nsmap["w"]}"'
    for part in ("<w:moveFrom {}>{}</w:moveFrom>", "<w:moveTo {}>{}</w:moveTo>", "<w:smartTag {}>{}</w:smartTag>"):
        runs = docx.oxml.parse_xml(part.format(f'{space} w:id="1"', "<w:r><w:t>the cat</w:t></w:r>"))
        document.add_paragraph("moved")._p.append(runs)
    document.paragraphs[0]._p.remove(document.paragraphs[0].runs[0]._r)
    document.paragraphs[1]._p.insert(0, document.paragraphs[0]._p[-1])
    made = docx.Document(BytesIO(translated(read("docx", saved(document)))))
    assert [[one.text for one in one._p.xpath(".//w:t")] for one in made.paragraphs] == [
        [], ["the cat", "MOVED", "THE CAT"], ["MOVED", "THE CAT"],
    ]  # fmt: skip
    assert [len(made.element.xpath(f".//w:{name}")) for name in ("moveFrom", "moveTo", "smartTag")] == [1, 1, 1]
