"""The page in a browser: it requests nothing, has no fault, fits a phone, aligns columns, and follows the theme."""

from pathlib import Path

import pytest

from tests.builders import run_command
from tests.report.browser import find_chromium, opened_browser

# The numbers of charts in the first two rows of the section Training, whose svg elements have one top and one width and
# together with the gaps fill the row; 0 for a row that does not.
COLUMNS = """(() => {
  const grid = document.querySelector("#training .figures"), rows = new Map()
  for (const svg of grid.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect(), top = Math.round(box.top)
    rows.set(top, [...(rows.get(top) ?? []), box])
  }
  const gap = parseFloat(getComputedStyle(grid).columnGap), width = grid.getBoundingClientRect().width
  const fills = (row) => Math.abs(row.length * row[0].width + (row.length - 1) * gap - width) < 1
  return [...new Set([...rows.values()].map((row) => fills(row) ? row.length : 0))]
})()"""


@pytest.mark.slow
def test_page_requests_nothing_fits_a_phone_and_follows_the_theme(uninterrupted: Path, tmp_path: Path) -> None:
    program = find_chromium()
    if program is None:
        pytest.skip("needs Chromium or Chrome, which is not installed")
    file = tmp_path / "report.html"
    assert run_command("report", uninterrupted, "-o", file).exit_code == 0
    with opened_browser(program, tmp_path / "profile") as page:
        colours = []
        for width, scheme in ((1200, "light"), (390, "dark")):
            page.open(file.as_uri(), width, scheme)
            assert page.run("document.querySelectorAll('svg').length") >= 10
            assert page.run("document.querySelectorAll('script').length") == 0
            assert page.run("document.documentElement.scrollWidth <= innerWidth")
            assert page.run(COLUMNS) == {1200: [2, 4], 390: [1, 2]}[width], (
                "plots that fill columns and begin at one height"
            )
            assert page.faults == []
            assert [one for one in page.addresses if not one.startswith(("file:", "data:", "about:"))] == []
            text = "getComputedStyle(document.querySelector('svg path[style*=currentColor]')).stroke"
            colours.append(page.run(f"[{text}, getComputedStyle(document.body).backgroundColor]"))
        light, dark = colours
        assert light[0] != dark[0]
        assert light[1] != dark[1]
