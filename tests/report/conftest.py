"""A browser for the tests of the page."""

from collections.abc import Iterator

import pytest

from tests.report.browser import Page, find_chromium, opened_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = find_chromium()
    if program is None:
        pytest.skip("needs Chromium or Chrome, which is not installed")
    with opened_browser(program, tmp_path_factory.mktemp("profile")) as page:
        yield page
