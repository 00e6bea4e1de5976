from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.browser import CHROMIUM, Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium; `make test` installs it where it can."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: install it (apt-get install chromium) to test pages in a browser")
    with Browser() as opened:
        yield opened
