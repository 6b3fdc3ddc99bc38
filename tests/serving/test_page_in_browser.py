"""The page in a browser: it translates while one types, shows alignments, and fits a phone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.report.browser import Page, find_chromium, opened_browser
from tests.serving.conftest import Running

TEXT = "😀 the cat sleeps .\\n\\na dog barks ."
MARKED = "[...document.querySelectorAll('#mirror mark')].map((one) => one.textContent).join(' ')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = find_chromium()
    if program is None:
        pytest.skip("needs Chromium or Chrome, which is not installed")
    with opened_browser(program, tmp_path_factory.mktemp("profile")) as page:
        yield page


def typed(page: Page, text: str) -> None:
    """Type a text and wait for its translation."""
    page.run(f"input.select(), document.execCommand('insertText', false, '{text}')")
    page.wait_for("state.text && !output.classList.contains('waiting')")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_page_translates_while_typing_and_shows_where_words_come_from(
    browser: Page, running: Running, width: int, scheme: str
) -> None:
    browser.open(running.url, width, scheme)
    browser.wait_for("target.options.length")
    typed(browser, TEXT)
    expected = "translate({ alignment: true }).then((answer) => answer.translatedText)"
    assert browser.run("output.textContent") == browser.run(expected)
    words = browser.run("input.value").split()
    for index in range(browser.run("state.links.length")):
        box = browser.run(
            f"(({{ x, y, width, height }}) => [x + width / 2, y + height / 2])"
            f"(output.querySelector('[data-index=\"{index}\"]').getBoundingClientRect())"
        )
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
        browser.wait_for(f"state.current === {index}")
        assert set(browser.run(MARKED).split()) <= set(words) != set()
        assert browser.run("at('origin').textContent") == f"from “{browser.run(MARKED)}”"
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 22, 28)"
    )
    assert browser.faults == []
    assert [one for one in browser.addresses if not one.startswith((f"{running.url}/", "data:", "about:"))] == []


@pytest.mark.slow
def test_page_has_other_translations_terms_and_documents_by_keyboard(browser: Page, running: Running) -> None:
    browser.open(running.url, 1280, "light")
    browser.wait_for("target.options.length")
    typed(browser, TEXT)
    first = browser.run("state.text")
    browser.run("at('others').click()")
    browser.wait_for("!at('alternatives').hidden")
    browser.run("document.querySelector('#alternatives button').click()")
    assert browser.run("state.text") not in ("", first)
    browser.run("at('add').click(), document.execCommand('insertText', false, 'cat')")
    browser.run(
        "document.querySelectorAll('#terms input')[1].focus(), document.execCommand('insertText', false, 'zebra')"
    )
    browser.wait_for("output.textContent.includes('zebra')")
    browser.run("output.focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
    browser.wait_for("state.current === 0 && at('spoken').textContent.includes(' from ')")
    browser.run("translateFile(new File(['the cat sleeps'], 'ü.txt'))")
    browser.wait_for("document.querySelector('#document a')")
    assert browser.run("document.querySelector('#document a').download") == "ü.it.txt"
    unnamed = "input:not([aria-label]), select:not([aria-label]), textarea:not([aria-label]), button:empty"
    assert browser.run(f"[...document.querySelectorAll('{unnamed}')].map((one) => one.id)") == [
        "key",
        "file",
    ]  # have labels
    assert browser.faults == []


@pytest.mark.slow
def test_page_drops_stale_answers_and_shows_errors(
    browser: Page, serve: Callable[..., Running], tmp_path: Path
) -> None:
    running = serve(characters=30, keys=[b"secret"])
    browser.open(running.url, 1280, "light")
    browser.wait_for("target.options.length && at('key').checkVisibility()")
    browser.run("input.focus(), document.execCommand('insertText', false, 'cat')")
    browser.wait_for("at('error').textContent.includes('api_key')")
    browser.run("at('key').value = 'secret', at('key').dispatchEvent(new Event('change'))")
    browser.wait_for("state.text && !at('error').textContent")
    late = "window.late = 0, window.plain = fetch, window.fetch = (...all) => (late++, plain(...all))"
    browser.run(f"{late}, input.value = 'a dog', changed(), run(), input.value = 'the moon', changed()")
    browser.wait_for("late >= 2 && !output.classList.contains('waiting')")
    assert browser.run("output.textContent") == browser.run("translate().then((answer) => answer.translatedText)")
    browser.run("input.value = 'a'.repeat(31), changed()")
    assert browser.run("at('count').textContent + at('count').className") == "31 of 30note over"
    assert browser.run("at('error').textContent + state.text") == "At most 30 characters are translated."
    browser.run("at('clear').click()")
    assert browser.run("at('error').textContent + state.text") == ""
    browser.run("input.value = 'שלום\\na dog', changed()")
    assert browser.run("[input, mirror].map((one) => getComputedStyle(one).direction).join()") == "rtl,rtl"
    slow = "new File(['a dog\\n'.repeat(2000)], 'a.txt')"
    documents = f"translateFile({slow}), translateFile(new File(['the moon'], 'b.txt'))"
    browser.run(f"Promise.all([{documents}])")
    assert browser.run("at('document').textContent") == "Download b.it.txt"
