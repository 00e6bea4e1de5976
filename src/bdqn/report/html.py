"""HTML built from elements. All text is escaped unless it is ``Html``, so nothing in a run can act on a page.

Control characters are removed: a page may be shown in a terminal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from html import escape
from importlib import resources
from typing import Any

from bdqn.storage.safe_files import printable_lines

Attribute = str | float | bool | None
VOID = {"meta", "img", "input", "br", "line", "path", "rect", "circle", "polygon"}  # elements without content


class Html(str):
    """Text that already is HTML."""


def tag(name: str, /, *children: str, **attributes: Attribute) -> Html:
    """An element. ``class_`` means class, and ``_`` means ``-``. True: an attribute without value; None: none."""
    shown = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in VOID:
        return Html(f"<{name}{shown}>" if name in ("meta", "img", "input", "br") else f"<{name}{shown}/>")
    return Html(f"<{name}{shown}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Html:
    """Concatenate parts and escape those that are plain text."""
    return Html("".join(child if isinstance(child, Html) else _escape(child) for child in children))


def data(identifier: str, content: Any) -> Html:
    """Data for a script. Every ``<`` is escaped, so that no text can end the element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return tag("script", Html(text), id=identifier, type="application/json")


def png_uri(png: bytes) -> str:
    """An image as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def page(title: str, *body: str, styles: Iterable[str] = ("page.css",), scripts: Iterable[str] = ()) -> str:
    """One self-contained page: it includes its styles and scripts and requests nothing from the network."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Even if a browser took text of a run for HTML, it would fetch nothing.
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'",
        ),
        tag("title", title),
        *(tag("style", Html(_asset(name))) for name in styles),
    )
    scripted = (tag("script", Html(_asset(name))) for name in scripts)
    return "<!doctype html>\n" + tag("html", head, tag("body", *body, *scripted), lang="en") + "\n"


def _asset(name: str) -> str:
    return (resources.files("bdqn.report") / "assets" / name).read_text(encoding="utf-8")


def _attribute(key: str, value: Attribute) -> str:
    name = key.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{_escape(text)}"'


def _escape(text: str) -> str:
    return escape(printable_lines(text))
