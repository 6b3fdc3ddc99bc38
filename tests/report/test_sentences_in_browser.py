"""The sections Attention and Search in a browser: pictures, the enlarged head, keys, themes, Chinese characters."""

from pathlib import Path

import pytest

from nmt.report.attention_section import attention_section
from nmt.report.beam_tree_section import beam_tree_section
from nmt.report.page import Section, render_page
from nmt.report.sentences import draw_sentence
from nmt.translation.translator import Translator
from tests.builders import tiny_loaded_model
from tests.report.browser import Page

pytestmark = pytest.mark.slow

PIXELS = "[...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    translator = Translator(tiny_loaded_model())
    sentences = [draw_sentence(translator, line, text) for line, text in ((1, "the cat sleeps ."), (2, "今天下雨。"))]
    output = tmp_path_factory.mktemp("page") / "report.html"
    page = render_page("test", [attention_section(sentences), beam_tree_section(sentences)])
    output.write_text(page, encoding="utf-8")
    return output


def test_every_head_is_a_picture_with_a_text_alternative(browser: Page, file: Path) -> None:
    browser.open(file)
    # two sentences, one layer of two heads in encoder, decoder and attention to the source
    assert browser.run("document.querySelectorAll('.heads button canvas').length") == 2 * 3 * 2
    labels = browser.run("[...document.querySelectorAll('.heads button')].map(one => one.ariaLabel)")
    assert labels[0].startswith("Encoder self-attention, layer 1, head 1. Strongest weights: ")
    plain = f"[...document.querySelectorAll('.heads canvas')].filter(one => new Set({PIXELS}).size < 6).length"
    assert browser.run(plain) == 0
    assert browser.faults == []


def test_enlarged_head_gives_weights_at_keys_and_pointer(browser: Page, file: Path) -> None:
    browser.open(file)
    browser.run("document.querySelectorAll('.heads[data-kind=cross] button')[1].focus()")
    browser.press("Enter")
    browser.wait_for("document.querySelector('dialog').open")
    assert browser.run("document.activeElement.tagName") == "CANVAS"
    shown = "document.querySelector('dialog output').textContent"
    first = browser.run(shown)
    assert first.count("→ ▁the: 0.") + first.count("→ ▁the: 1.") == 1
    browser.press("ArrowRight")
    assert browser.run(shown) != first
    browser.press("ArrowLeft")
    browser.press("ArrowUp")  # beyond the first row: nothing changes
    assert browser.run(shown) == first
    box = "document.querySelector('dialog canvas').getBoundingClientRect()"
    corner = browser.run(f"(({{right, bottom}}) => [right, bottom])({box})")
    browser.hover(corner[0] - 8, corner[1] - 8)
    assert browser.run(shown).startswith("</s> → </s>: ")
    browser.press("Escape")
    assert browser.run("document.querySelector('dialog').open") is False
    assert browser.faults == []


def test_heads_of_short_sentences_have_their_tokens(browser: Page, tmp_path: Path) -> None:
    translator = Translator(tiny_loaded_model())
    short, long = (draw_sentence(translator, 1, text) for text in ("a cat", "the cat sleeps . " * 9))
    (tmp_path / "x.html").write_text(render_page("x", [attention_section([short, long])]), encoding="utf-8")
    browser.open(tmp_path / "x.html")
    places = "[...document.querySelectorAll('.heads[data-kind=encoder]')]"
    browser.wait_for(f"{places}.length === 2 && {places}[0].classList.contains('labelled')")
    button = f"{places}[0].querySelector('button')"
    assert browser.run(f"getComputedStyle({button}).backgroundImage").startswith('url("data:image/png')
    # the cells begin where the tokens of the rows end, and are as large as their picture
    widths = browser.run(f"[{button}.clientWidth, {button}.querySelector('canvas').clientWidth]")
    assert 20 < widths[0] - widths[1] < 80
    assert widths[1] >= 13 * browser.run(f"{button}.querySelector('canvas').width")
    assert browser.run(f"getComputedStyle({places}[1].querySelector('button')).backgroundImage") == "none"
    assert "enlarge a head" in browser.run(f"{places}[1].querySelector('output').textContent")
    corner = browser.run(f"(({{left, top}}) => [left, top])({button}.querySelector('canvas').getBoundingClientRect())")
    browser.hover(corner[0] + 8, corner[1] + 8)
    shown = browser.run(f"{places}[0].querySelector('output').textContent")
    assert shown.startswith("layer 1, head 1: ▁a → ▁a: ")
    assert browser.faults == []


def test_pictures_follow_the_theme(browser: Page, file: Path) -> None:
    browser.open(file)
    pixels = f"(one => {PIXELS})(document.querySelector('.heads canvas')).slice(0, 40)"
    before = browser.run(pixels)
    browser.run("document.getElementById('theme').click()")
    assert browser.run(pixels) != before


def test_keys_move_through_the_tree(browser: Page, file: Path) -> None:
    browser.open(file)
    browser.run("document.getElementById('tab-search').click()")
    output = "document.querySelector('.hypothesis').textContent"
    best = browser.run(output)
    assert best.endswith("finished")
    browser.run("document.querySelector('.beam-tree [tabindex=\"0\"]').focus()")
    length = browser.run("document.querySelectorAll('.beam-tree')[0].querySelectorAll('.node.path').length")
    browser.press("ArrowLeft")
    assert browser.run(output) != best
    assert browser.run("document.querySelectorAll('.beam-tree')[0].querySelectorAll('.node.path').length") == length - 1
    browser.press("End")
    assert browser.run(output) == best
    browser.press("Home")
    assert browser.run("document.activeElement.dataset.step") == "1"
    assert browser.faults == []


def test_chinese_characters_have_a_font(browser: Page, file: Path) -> None:
    browser.open(file)
    browser.wait_for("[...document.fonts].some(one => one.family.includes('report-embedded'))")
    browser.run("Promise.all([...document.fonts].map(one => one.load()))")
    assert browser.run("[...document.fonts].every(one => one.status === 'loaded')")
    assert browser.run("document.fonts.check('16px report-embedded', '今天下雨。')")


def test_first_chinese_text_is_drawn_with_the_font(browser: Page, tmp_path: Path) -> None:
    page = render_page("x", [Section("run", "Run", "<p>猫</p><p>狗</p><p>猫</p>")])
    (tmp_path / "x.html").write_text(page, encoding="utf-8")
    browser.open(tmp_path / "x.html")
    browser.run("document.fonts.ready.then(() => new Promise((done) => setTimeout(done, 100)))")

    def picture(index: int) -> str:
        place = browser.run(
            f"(({{x, y}}) => ({{x, y}}))(document.querySelectorAll('p')[{index}].getBoundingClientRect())"
        )
        clip = {**place, "width": 30, "height": 24, "scale": 1}
        return str(browser.call("Page.captureScreenshot", clip=clip)["data"])

    first, other, same = map(picture, range(3))
    assert first == same
    assert first != other


def test_sections_fit_a_phone(browser: Page, file: Path) -> None:
    browser.open(file, width=375)
    for name in ("attention", "search"):
        browser.run(f"document.getElementById('tab-{name}').click()")
        browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert browser.run("document.documentElement.scrollWidth") <= 375, name
