"""The site that ``make docs`` has built: its links lead somewhere, and its pages can be read in a real browser."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.browser import Browser

ROOT = Path(__file__).parents[2]
SITE = ROOT / "out" / "site"
NOTEBOOKS = sorted(path.stem for path in (ROOT / "docs" / "notebooks").glob("*.ipynb"))
PAGES = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)
NAMES = [path.relative_to(SITE).as_posix() for path in PAGES]
CORNERS = [(width, dark) for width in (390, 1280) for dark in (False, True)]

pytestmark = pytest.mark.site

BROKEN_IMAGES = "[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
WIDTH = "document.documentElement.scrollWidth"
# WCAG's contrast of the text that one reads, against the first background behind it that is not transparent.
CONTRAST = """
(() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = numbers(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = element => {
    const [a, b] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const read = document.querySelectorAll("article h1, article p, article td, article pre, article code, article a");
  return Math.min(...[...read].filter(e => e.offsetHeight).map(contrast));
})()
"""


class Links(HTMLParser):
    """What a page links to or shows, and the places in it that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.targets += [target for name in ("href", "src") if (target := found.get(name))]
        self.places |= {place for name in ("id", "name") if (place := found.get(name))}


def test_there_is_a_site() -> None:
    assert {"index.html", "reference/settings.html", "docs/glossary.html"} <= set(NAMES), "make docs builds it"


def test_every_link_within_the_site_leads_somewhere() -> None:
    pages = {page: Links(page) for page in PAGES}
    lost = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = unquote(parts.fragment)
            if not file.exists() or (place and file in pages and place not in pages[file].places):
                lost.append(f"{page.relative_to(SITE)}: {target}")
    assert not lost


@pytest.mark.parametrize("name", NAMES)
def test_a_page_can_be_read_wide_and_narrow_light_and_dark(browser: Browser, name: str) -> None:
    browser.open(SITE / name)
    assert browser.run(BROKEN_IMAGES) == []
    for width, dark in CORNERS:
        browser.resize(width, dark=dark)
        assert browser.run(WIDTH) <= width, f"wider than {width} pixels"
        assert (browser.run(CONTRAST) or 21) >= 3, f"dark: {dark}"
    assert browser.requests == []
    assert browser.complaints == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_colour_scheme_is_the_users(browser: Browser, dark: bool) -> None:
    browser.open(SITE / "index.html", dark=dark)
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => a + Number(b), 0)"
    assert (browser.run(brightness) < 3 * 128) == dark


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_shown_with_what_it_computed(name: str) -> None:
    page = (SITE / "docs" / "notebooks" / f"{name}.html").read_text()
    assert page.count('<div class="cell_output') >= 2
    assert '<img alt="../../_images/' in page


def test_notebooks_are_quick() -> None:
    """They take half of this on an idle machine."""
    with contextlib.closing(sqlite3.connect(ROOT / "out" / "notebooks" / "global.db")) as cache:
        rows = cache.execute("SELECT uri, data FROM nbcache").fetchall()
    seconds = {Path(uri).stem: json.loads(data)["execution_seconds"] for uri, data in rows}
    assert seconds.keys() == set(NOTEBOOKS)
    assert max(seconds.values()) < 120
