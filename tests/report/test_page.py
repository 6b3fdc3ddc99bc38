"""The page: valid HTML, escaping, and what its scripts may do."""

import base64
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nmt.report.charts import Series, bar_chart, line_chart
from nmt.report.corpus_section import corpus_section
from nmt.report.page import Section, definitions, json_for_script, render_page, table
from nmt.report.run_records import RunRecords
from nmt.report.run_section import run_section
from tests.builders import run_command
from tests.report.run_files import train_line, validation_line, write_run

HOSTILE = "</script><script>alert(1)</script></style><!-- <b \u2028 &amp; \" ' onload='x"
VOID = {"meta", "br", "img", "hr", "input", "link"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects ids, references and elements."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names), (tag, names)
        content = dict(attributes)
        self.elements.append((tag, content))
        self.ids += [content["id"] or ""] if "id" in content else []
        for name in ("aria-labelledby", "aria-controls", "aria-describedby"):
            self.references += (content.get(name) or "").split()
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    assert set(reader.references) <= set(reader.ids)
    return reader


def hostile_page() -> str:
    chart = line_chart(HOSTILE, HOSTILE, ("step", HOSTILE), [Series(HOSTILE, [1], [2.0])])
    bars = bar_chart(HOSTILE, HOSTILE, (HOSTILE, HOSTILE), [(HOSTILE, {HOSTILE: 1})])
    html = '<div data-chart="loss"></div><div data-chart="bars"></div>'
    html += table([HOSTILE], [[HOSTILE]], HOSTILE) + definitions([(HOSTILE, HOSTILE, HOSTILE)])
    return render_page(HOSTILE, [Section("run", HOSTILE, html, {"loss": chart, "bars": bars}, {HOSTILE: [HOSTILE]})])


def test_hostile_text_is_escaped_everywhere() -> None:
    reader = read(hostile_page())
    assert [tag for tag, _ in reader.elements].count("script") == 3  # data, library, page
    assert not [tag for tag, _ in reader.elements if tag in ("b", "style")][1:]
    assert not [names for _, names in reader.elements if "onload" in names]
    assert any(HOSTILE in text for text in reader.text)


def test_data_of_a_section_is_read_back_unchanged() -> None:
    content = {"text": HOSTILE, "中": [1, None, True, 0.5]}
    text = json_for_script(content)
    assert json.loads(text) == content
    assert not re.search("[<>&\u2028\u2029]", text)
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_for_script({"loss": float("nan")})


def test_policy_permits_the_scripts_of_the_page_only() -> None:
    page = hostile_page()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in rules["script-src"]
    assert not re.search("https?:|\\*", policy)
    for script in re.findall(r'<script(?: type="text/plain" id="library")?>(.*?)</script>', page, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in rules["script-src"]


def test_page_refers_to_no_other_file() -> None:
    for tag, attributes in read(hostile_page()).elements:
        assert not {"src", "srcset", "action", "data"} & attributes.keys(), tag
        assert (attributes.get("href") or "#").startswith("#"), tag
        assert tag not in ("link", "iframe", "object", "base"), tag


def test_every_chart_has_a_name_a_sentence_and_its_numbers() -> None:
    chart = line_chart("Loss", "It falls.", ("step", "nats"), [Series("training", [10, 20], [2.5, 1234.5])])
    page = render_page("x", [Section("run", "Run", '<div data-chart="loss"></div>', {"loss": chart})])
    figure = page[page.index("<figure") : page.index("</figure>")]
    assert 'role="img" tabindex="0" aria-label="Loss. It falls."' in figure
    assert "<strong>Loss</strong> It falls." in figure
    cells = re.findall(r'<td class="number">([^<]*)</td>', figure)
    assert cells == ["10", "2.5", "20", "1,234"]


def test_place_of_an_unknown_chart_is_a_bug() -> None:
    with pytest.raises(KeyError):
        render_page("x", [Section("run", "Run", '<div data-chart="loss"></div>')])


def test_page_of_a_run_with_a_hostile_name_and_hostile_texts_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "<title><script>x()<b>run & 'x'"
    lines = [train_line(10, 3.0), validation_line(10, 2.0, 5.0), {"type": "skipped", "step": 11, "loss": "<i>nan"}]
    write_run(path, lines)
    (path / "test.json").write_text(json.dumps([{"name": "<u>", "value": 1.5, "signature": "<s>"}]))
    run = RunRecords(path)
    reader = read(render_page(run.name, [run_section(run), corpus_section(run)]))
    assert not [tag for tag, _ in reader.elements if tag in ("b", "i", "u", "s")]
    assert path.name in reader.text


def test_page_has_a_font_for_the_chinese_characters_in_it() -> None:
    chart = line_chart("损失", "下降。", ("步", "nats"), [Series("训练", [1], [2.0])])
    page = render_page(
        "x", [Section("run", "Run", '<p>猫</p><div data-chart="a"></div>', {"a": chart}, {"text": "睡觉"})]
    )
    (covered,) = re.findall(r"@font-face\{[^}]*unicode-range:([^}]*)\}", page)
    codes = {int(code.removeprefix("U+"), 16) for code in covered.split(",")}
    assert set(map(ord, "猫睡觉")) <= codes
    assert "@font-face" not in render_page("x", [Section("run", "Run", "<p>è</p>")])


def test_characters_that_no_font_has_are_reported() -> None:
    warnings: list[str] = []
    render_page("x", [Section("run", "Run", "<p>è\N{ANATOLIAN HIEROGLYPH A001}</p>")], warnings.append)
    (warning,) = warnings
    assert warning.startswith("no font on this machine has 1 of the characters (\N{ANATOLIAN HIEROGLYPH A001}): only ")
    assert "fonts-noto-cjk" in warning
    render_page("x", [Section("run", "Run", "<p>è</p>")], warnings.append)
    assert len(warnings) == 1


def test_whole_page_of_a_run_is_valid(uninterrupted: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    assert run_command("report", uninterrupted, "-o", output).exit_code == 0
    reader = read(output.read_text(encoding="utf-8"))
    assert {"run", "data", "quality", "attention", "search"} <= set(reader.ids)
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    for tag, attributes in reader.elements:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert tag != "img" or attributes.get("alt") is not None
