"""Members of zip archives are read like files."""

import zipfile
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.text.readers.archive import split_member, text_members
from nmt.text.readers.opening import read_lines


def archive(path: Path, method: int = zipfile.ZIP_DEFLATED, **members: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_text_needs_no_name(tmp_path: Path, method: int) -> None:
    path = archive(
        tmp_path / "a.zip",
        method,
        **{"README": "x", "LICENSE.txt": "x", "_about.txt": "x", "__MACOSX/._ita.txt": "x", "ita.txt": "a\tb\n" * 9},
    )
    assert list(read_lines(path)) == ["a\tb"] * 9
    assert list(read_lines(path / "ita.txt")) == ["a\tb"] * 9
    assert list(read_lines(path / "README")) == ["x"]
    assert text_members(path) == ["ita.txt"]


def test_one_of_several_texts_must_be_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", **{"a.en": "one", "folder/a.it": "uno", "folder/": ""})
    assert list(read_lines(path / "folder" / "a.it")) == ["uno"]
    with pytest.raises(DataError, match=r"a\.zip: expected .* one text file, found 2 \(a\.en, folder/a\.it\)"):
        list(read_lines(path))
    with pytest.raises(DataError, match=r"a\.zip: no member a\.de \(a\.en, folder/a\.it\)"):
        list(read_lines(path / "a.de"))
    with pytest.raises(DataError, match="no member folder "):
        list(read_lines(path / "folder"))
    with pytest.raises(DataError, match="an archive without text; if it is a document"):
        list(read_lines(archive(tmp_path / "b.zip", README="x")))


def test_archive_is_recognized_by_its_content(tmp_path: Path) -> None:
    path = archive(tmp_path / "without_suffix", **{"a.en": "one"})
    assert list(read_lines(path)) == ["one"]
    (tmp_path / "b.zip").write_text("text")
    with pytest.raises(DataError, match=r"b\.zip: expected a zip archive, which contains a\.en"):
        list(read_lines(tmp_path / "b.zip" / "a.en"))
    (tmp_path / "folder.zip").mkdir()
    assert split_member(tmp_path / "folder.zip" / "a.en") == (tmp_path / "folder.zip" / "a.en", None)


def test_archive_in_an_archive_is_refused(tmp_path: Path) -> None:
    inner = archive(tmp_path / "inner.zip", **{"a.en": "one"})
    outer = archive(tmp_path / "outer.zip", **{"inner.zip": inner.read_bytes()})
    for path in (outer, outer / "inner.zip"):
        with pytest.raises(DataError, match="expected text in UTF-8, found a zip archive"):
            list(read_lines(path))
    with pytest.raises(DataError, match=r"no member inner\.zip/a\.en"):
        list(read_lines(outer / "inner.zip" / "a.en"))


def test_name_that_leads_out_of_the_archive_is_only_a_name(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("outside")
    path = archive(tmp_path / "a.zip", **{"../outside.txt": "inside", "/etc/hosts": "inside"})
    assert list(read_lines(path / "../outside.txt")) == ["inside"]
    with pytest.raises(DataError, match=r"no member etc/hosts"):
        list(read_lines(path / "etc/hosts"))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_archive_is_refused(tmp_path: Path, method: int) -> None:
    path = archive(tmp_path / "a.zip", method, **{"a.en": "".join(f"line {n}\n" for n in range(9999))})
    whole = path.read_bytes()
    for content in (whole[:-30], whole[:100] + bytes(40) + whole[140:], whole[:20], whole[:30] + b"b" + whole[31:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.zip: (damaged zip archive|reading failed: Invalid data stream)"):
            list(read_lines(path))


def test_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", zipfile.ZIP_STORED, **{"a.en": "one"})
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read a\.en: .*password required"):
        list(read_lines(path))


def test_spreadsheet_is_refused_with_advice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        for name in ("[Content_Types].xml", "_rels/.rels", "xl/_rels/workbook.xml.rels", "xl/worksheets/sheet1.xml"):
            archive.writestr(name, "<x/>")
    with pytest.raises(DataError, match=r"a\.xlsx: an archive without text; .* save it as plain text or as CSV"):
        list(read_lines(tmp_path / "a.xlsx"))
