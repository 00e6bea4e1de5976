"""A page that replays a recorded episode beside the agent's belief at each decision."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from bdqn.report.html import Html, data, page, png_uri, tag
from bdqn.runs.recording import Array, Picture, Recording

SHARP = 160  # pixels; no picture of Atari is wider


def watch_page(recording: Recording) -> str:
    """The page of a recording."""
    facts = dict(recording.facts)
    found = recording.calibration
    if found is not None:
        facts["calibration"] = (
            f"the return that followed was within 1 predictive std of Q in {found[1.0]:.0%} of decisions, and within 2 "
            f"in {found[2.0]:.0%}; the 68% and 95% of a Gaussian are not targets, "
            "because the std is that of one-step targets and the return that of a whole episode"
        )
    pictures, order = _distinct(recording.pictures)
    content = {
        "actions": recording.actions,
        "pictures": [png_uri(png(picture)) for picture in pictures],
        "order": order,
        "observations": _rows(recording.observations),
        "mean": _rows(recording.mean),
        "draw": _rows(recording.draw) if recording.draws else None,
        "centre": _rows(recording.centre),
        "std": _rows(recording.std),
        "best": _rows(recording.best),
        "action": recording.action.tolist(),
        "greedy": recording.greedy.tolist(),  # before rounding, which can make ties
        "allowed": None if recording.allowed is None else recording.allowed.tolist(),
        "redrawn": recording.redrawn.tolist(),
        "kind": recording.kind,
        "reward": _numbers(recording.reward),
        "ended": recording.ended.tolist(),
    }
    body = tag(
        "main",
        tag("header", tag("p", "bdqn watch: Bayesian DQN", class_="kicker"), tag("h1", recording.title)),
        _stage(recording),
        tag(
            "dl", *(part for name, text in facts.items() for part in (tag("dt", name), tag("dd", text))), class_="facts"
        ),
        data("recording", content),
    )
    return page(recording.title, body, styles=("page.css", "watch.css"), scripts=("watch.js",))


def _stage(recording: Recording) -> Html:
    last = len(recording.action) - 1
    # Pixels of games stay sharp. Pictures of many pixels are drawings, whose slanted edges would be ragged.
    drawing = bool(recording.pictures) and recording.pictures[0].shape[1] > SHARP
    look = "smooth" if drawing else None
    seen = (
        tag("img", id="picture", class_=look, alt="What the environment shows", draggable="false")
        if recording.pictures
        else tag("svg", id="bars", role="img", aria_label="The observation, one bar per number", viewBox="0 0 300 220")
    )
    belief = "Belief about Q" if recording.std is not None else "Q-values"
    bells = [("bell-key", "belief: wider means less certain")] if recording.std is not None else []
    draws = [("draw", "current draw")] if recording.draws else []
    mean = "mean" if recording.centre is None else "mean, which the greedy policy follows"
    masks = [("forbidden", "faint: not allowed")] if recording.allowed is not None else []
    legend = [("mean", mean if bells or draws else "Q"), *bells, *draws, ("chosen", "chosen action"), *masks]
    return tag(
        "div",
        tag("section", seen, tag("p", "", id="status", role="status"), class_="panel seen", aria_label="Environment"),
        tag(
            "section",
            tag("h2", belief),
            tag("svg", id="belief", role="img", aria_label=f"{belief} of every action"),
            tag("p", *(tag("span", tag("i", class_=f"swatch {name}"), text) for name, text in legend), class_="legend"),
            class_="panel",
        ),
        tag(
            "section",
            tag("h2", "Along the episode"),
            tag("svg", id="timeline", role="img", aria_label="Uncertainty over decisions", viewBox="0 0 1000 150"),
            tag("p", "", id="timeline-legend", class_="legend"),
            tag(
                "div",
                tag("button", "Play", id="play", type="button", aria_label="Play or pause"),
                tag("input", id="scrub", type="range", min="0", max=str(last), value="0", aria_label="Decision"),
                tag("label", tag("span", "speed "), _speeds()),
                class_="controls",
            ),
            tag("p", "Keys: left and right to step, space to play, home and end to jump.", class_="hint"),
            class_="panel wide",
        ),
        class_="stage",
    )


def _speeds() -> Html:
    options = (tag("option", f"{n}/s", value=str(n), selected=n == 8) for n in (2, 4, 8, 15, 30))
    return tag("select", *options, id="speed")


# --- images -------------------------------------------------------------------------------------------------------


def png(picture: Picture) -> bytes:
    """Encode a picture as PNG, with a palette if it has at most 256 colours, as most games do."""
    height, width, _ = picture.shape
    codes, indices = np.unique(picture.reshape(-1, 3) @ np.array([1 << 16, 1 << 8, 1]), return_inverse=True)
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1).astype(np.uint8)
    if len(colours) <= 256:
        kind, rows, palette = 3, indices.reshape(height, width).astype(np.uint8), _chunk(b"PLTE", colours.tobytes())
    else:
        kind, rows, palette = 2, picture.reshape(height, -1), b""
    lines = np.hstack([np.zeros((height, 1), np.uint8), rows])  # each line starts with its filter type: none
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + palette
        + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _distinct(pictures: list[Picture]) -> tuple[list[Picture], list[int]]:
    """Distinct pictures, and the index of the picture that each decision shows."""
    found: dict[bytes, int] = {}
    kept: list[Picture] = []
    order = []
    for picture in pictures:
        key = picture.tobytes()
        if key not in found:
            found[key] = len(kept)
            kept.append(picture)
        order.append(found[key])
    return kept, order


def _rows(values: Array | None) -> list[list[Any]] | None:
    return None if values is None else [_numbers(row) for row in values]


def _numbers(values: Array) -> list[float]:
    """Rounded to four digits, more than a screen shows."""
    return [float(f"{value:.4g}") for value in values.tolist()]
