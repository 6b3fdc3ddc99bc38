"""The page in a browser: nothing is requested, charts are drawn, tabs, keys, themes, a phone's width and print work."""

from pathlib import Path

import pytest

from tests.builders import run_command
from tests.report.browser import Page

pytestmark = pytest.mark.slow

TABS = "[...document.querySelectorAll('[role=tab]')]"
SHOWN = "document.querySelector('main > section:not([hidden])').id"


@pytest.fixture(scope="module")
def file(uninterrupted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a short run."""
    output = tmp_path_factory.mktemp("page") / "report.html"
    result = run_command("report", uninterrupted, "-o", output)
    assert result.exit_code == 0, result.output
    return output


def draw_all(page: Page) -> list[str]:
    """Show every section and scroll to each of its charts; return the ids of the sections."""
    names = [str(name) for name in page.run("[...document.querySelectorAll('main > section')].map(one => one.id)")]
    for name in names:
        page.run(f"document.getElementById('tab-{name}').click()")
        for index in range(page.run(f"document.querySelectorAll('#{name} figure[data-chart]').length")):
            chart = f"document.querySelectorAll('#{name} figure[data-chart] .chart')[{index}]"
            page.run(f"{chart}.scrollIntoView()")
            page.wait_for(f"'drawn' in {chart}.dataset")
    return names


def test_page_draws_every_chart_and_requests_nothing(browser: Page, file: Path) -> None:
    browser.open(file)
    assert draw_all(browser)[:2] == ["run", "data"]
    empty = "[...document.querySelectorAll('.chart')].filter(one => !one.querySelector('.trace path, .trace .point'))"
    assert browser.run(f"{empty}.map(one => one.ariaLabel)") == []
    assert browser.run("document.querySelectorAll('.chart').length") >= 10
    assert browser.faults == []
    assert [one for one in browser.addresses if not one.startswith(("file:", "data:", "about:"))] == []


def test_page_cannot_request_anything(browser: Page, file: Path) -> None:
    """Even a script that has its way into the page is stopped by the policy."""
    browser.open(file)
    assert browser.run("fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.name)") == "TypeError"
    assert "Content Security Policy" in "".join(browser.faults)
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.executed = true\">')")
    browser.run("document.body.append(Object.assign(document.createElement('script'), {text: 'executed = true'}))")
    assert browser.run("window.executed") is None


def test_tab_key_goes_to_the_theme_and_the_tabs_first(browser: Page, file: Path) -> None:
    browser.open(file)
    focused = []
    for _ in range(3):
        browser.press("Tab")
        focused.append(browser.run("document.activeElement.id"))
    assert focused == ["theme", "tab-run", "run"]


def test_tabs_follow_arrow_keys_and_the_address(browser: Page, file: Path) -> None:
    browser.open(file)
    count = browser.run(f"{TABS}.length")
    browser.run(f"{TABS}[0].focus()")
    assert browser.run(SHOWN) == "run"
    browser.press("ArrowRight")
    assert browser.run(SHOWN) == "data"
    assert browser.run(f"{TABS}.map(one => [one.ariaSelected, one.tabIndex])") == [
        ["true" if index == 1 else "false", 0 if index == 1 else -1] for index in range(count)
    ]
    assert browser.run("document.activeElement.id") == "tab-data"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    assert browser.run("document.activeElement") == browser.run(f"{TABS}[{count - 1}]")
    browser.press("Home")
    assert browser.run(SHOWN) == "run"
    browser.press("Tab")  # from the tabs into the panel
    assert browser.run("document.activeElement.closest('main > section').id") == "run"
    browser.run("location.hash = 'data'")
    browser.wait_for(f"{SHOWN} === 'data'")
    browser.run("location.hash = '%E0%A4%A'")  # not an escape of UTF-8
    browser.run("new Promise((done) => setTimeout(done))")
    assert browser.run(SHOWN) in ("run", "data")
    assert browser.faults == []


def test_charts_show_values_at_the_pointer(browser: Page, file: Path) -> None:
    browser.open(file)
    chart = "document.querySelector('figure[data-chart=loss] .chart')"
    browser.wait_for(f"'drawn' in {chart}.dataset")
    browser.run(f"{chart}.scrollIntoView({{block: 'center'}})")
    box = browser.run(f"(({{x, y, width, height}}) => [x, y, width, height])({chart}.getBoundingClientRect())")
    browser.hover(box[0] + 0.7 * box[2], box[1] + 0.4 * box[3])
    browser.wait_for(f"{chart}.querySelector('.hoverlayer text')")
    assert "training" in browser.run(f"{chart}.querySelector('.hoverlayer').textContent")


def test_arrow_keys_show_the_values_of_a_chart(browser: Page, file: Path) -> None:
    browser.open(file)
    chart = "document.querySelector('figure[data-chart=loss] .chart')"
    browser.wait_for(f"'drawn' in {chart}.dataset")
    browser.run(f"{chart}.focus()")
    for key, step in (("ArrowRight", 3), ("ArrowRight", 6), ("End", 12), ("ArrowLeft", 9)):
        browser.press(key)
        browser.wait_for(f"{chart}.querySelector('.hoverlayer').textContent.startsWith('{step}training')")
    browser.run(f"{chart}.blur()")
    browser.wait_for(f"!{chart}.querySelector('.hoverlayer text')")
    assert browser.faults == []


def test_theme_is_that_of_the_system_until_it_is_chosen(browser: Page, file: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    text = "document.querySelector('.chart[data-drawn] .xtick text').style.fill"
    colours = set()
    for system in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": system}])
        browser.open(file)
        browser.wait_for("document.querySelector('.chart[data-drawn] .xtick text')")
        before = (browser.run(background), browser.run(text))
        browser.run("document.getElementById('theme').click()")
        after = (browser.run(background), browser.run(text))
        assert browser.run("document.getElementById('theme').ariaPressed") == ("true" if system == "light" else "false")
        colours |= {(before, after) if system == "light" else (after, before)}
        assert before[0] != after[0]
        assert before[1] != after[1]
    assert len(colours) == 1
    browser.call("Emulation.setEmulatedMedia", features=[])


def test_page_fits_the_width_of_a_phone(browser: Page, file: Path) -> None:
    browser.open(file, width=375)
    for name in draw_all(browser):
        browser.run(f"document.getElementById('tab-{name}').click()")
        browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert browser.run("document.documentElement.scrollWidth") <= 375, name
    assert browser.faults == []


def test_print_shows_all_sections_and_charts_in_light_colours(browser: Page, file: Path) -> None:
    browser.open(file)
    browser.run("document.getElementById('theme').click()")
    browser.run("document.getElementById('tab-data').click()")
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.run("document.querySelectorAll('main > section[hidden]').length") == 0
    assert browser.run("document.querySelectorAll('.chart:not([data-drawn])').length") == 0
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    folded = "[...document.querySelectorAll('details')].filter(one => !one.open && one.className !== 'screen-only')"
    assert browser.run(f"{folded}.length") == 0
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert browser.run(f"{folded}.length") > 0
    assert browser.run(SHOWN) == "data"
    assert browser.run("document.documentElement.dataset.theme") == "dark"
    assert browser.faults == []


def test_page_without_scripts_shows_text_and_numbers(browser: Page, file: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.call("Page.navigate", url=file.as_uri())
    while browser.run("document.readyState") != "complete":
        pass
    assert browser.run("window.report") is None
    assert browser.run("[...document.querySelectorAll('main > section')].every(one => one.offsetHeight > 100)")
    assert browser.run("document.querySelectorAll('figure table').length") >= 10
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
