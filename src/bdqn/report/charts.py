"""Line charts for pages, as inline SVG: they follow the page's light or dark colours and scale to any size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdqn.report.html import Html, data, tag
from bdqn.report.load import Array

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 58.0, 20.0, 12.0, 40.0
COLOURS, DASHES = 7, 3  # in the style sheet; the first dash is a solid line
SI = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Series:
    """A line with an optional band around it; NaN is a gap."""

    name: str
    colour: int  # its index: after the last colour, colours repeat with other dashes
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    thin: bool = False

    @property
    def style(self) -> str:
        """CSS classes of the line."""
        again, colour = divmod(self.colour, COLOURS)
        dash = again % DASHES
        return f"c{colour}" + (f" d{dash}" if dash else "")


@dataclass(frozen=True)
class Scale:
    """Map data to the coordinates of one axis."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self._of(self.low)) / (self._of(self.high) - self._of(self.low))
        return self.start + share * (self.end - self.start)

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else value


def line_chart(
    identifier: str,
    title: str,
    series: Sequence[Series],
    ylabel: str,
    *,
    log: bool = False,
    ideal: float | None = None,
) -> Html:
    """A chart over decisions with a legend, and a dashed line at ``ideal``. Without data it says so."""
    known = [line for line in series if np.isfinite(line.y).any()]
    if not known:
        empty = tag("p", "No run has logged this yet.", class_="missing")
        return tag("figure", tag("figcaption", tag("strong", title)), empty, class_="chart")
    log = log and all((line.y[np.isfinite(line.y)] > 0).all() for line in known)
    x = Scale(0.0, max(float(line.x[-1]) for line in known), LEFT, WIDTH - RIGHT)
    y = _vertical(known, log, ideal)
    shapes = [*_axes(x, y, ylabel), *(shape for line in known for shape in _shapes(line, x, y))]
    if ideal is not None:
        shapes.append(tag("line", x1=x.start, x2=x.end, y1=y(ideal), y2=y(ideal), class_="ideal"))
    names = dict.fromkeys((line.name, line.style) for line in known)
    legend = [tag("span", tag("i", class_=f"key {style}"), name) for name, style in names]
    label = f"{title}: {ylabel} over decisions for {', '.join(name for name, _ in names)}"
    picture = tag(
        "svg", *shapes, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label, preserveAspectRatio="xMidYMid"
    )
    return tag(
        "figure",
        tag("figcaption", tag("strong", title)),
        picture,
        tag("p", *legend, class_="legend"),
        tag("output", "", class_="readout"),
        data(f"{identifier}-data", _readout(known, x)),
        class_="chart",
        id=identifier,
    )


def si(value: float) -> str:
    """Format a number: 2.5M, 300k, 0.02; beyond the largest unit, 1e+13."""
    rounded = float(f"{value:.3g}")  # round before choosing the unit: 999,999 is 1M
    for unit, letter in SI:
        if unit <= abs(rounded) < 1000 * unit:
            return f"{rounded / unit:.3g}{letter}"
    return f"{rounded:.3g}"


def _vertical(series: Sequence[Series], log: bool, ideal: float | None = None) -> Scale:
    parts = [part for line in series for part in (line.y, line.low, line.high) if part is not None]
    parts += [] if ideal is None else [np.array([ideal])]
    values = np.concatenate([part[np.isfinite(part)] for part in parts])
    if log:
        values = values[values > 0]
    low, high = float(values.min()), float(values.max())
    if log:
        first = math.floor(math.log10(low))
        last = max(first + 1, math.ceil(math.log10(high)))
        return Scale(10.0**first, 10.0**last, HEIGHT - BOTTOM, TOP, log=True)
    margin = 0.05 * (high - low) or 0.5 * abs(high) or 1.0
    bottom = 0.0 if 0.0 <= low <= 0.5 * high else low - margin
    return Scale(bottom, high + margin, HEIGHT - BOTTOM, TOP)


def _ticks(scale: Scale, count: int = 5) -> list[float]:
    if scale.log:
        first, last = round(math.log10(scale.low)), round(math.log10(scale.high))
        return [10.0**power for power in range(first, last + 1, max(1, (last - first) // count))]
    rough = (scale.high - scale.low) / count
    unit = 10 ** math.floor(math.log10(rough))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= rough * 0.999)
    first = math.ceil(scale.low / step - 1e-9)
    return [i * step for i in range(first, int(scale.high / step + 1e-9) + 1)]


def _axes(x: Scale, y: Scale, ylabel: str) -> Iterator[Html]:
    for tick in _ticks(y):
        yield tag("line", x1=x.start, x2=x.end, y1=y(tick), y2=y(tick), class_="grid")
        yield tag("text", si(tick), x=x.start - 6, y=y(tick) + 4, text_anchor="end")
    for tick in _ticks(x):
        yield tag("text", si(tick), x=x(tick), y=y.start + 17, text_anchor="middle")
    yield tag("line", x1=x.start, x2=x.end, y1=y.start, y2=y.start, class_="axis")
    yield tag("text", "decisions", x=(x.start + x.end) / 2, y=float(HEIGHT - 5), text_anchor="middle")
    middle = (y.start + y.end) / 2
    yield tag("text", ylabel, x=12.0, y=middle, text_anchor="middle", transform=f"rotate(-90 12 {middle:g})")


def _shapes(line: Series, x: Scale, y: Scale) -> Iterator[Html]:
    finite = np.isfinite(line.y)
    if line.low is not None and line.high is not None and finite.sum() > 1:
        there, back = (_points(line.x[finite], edge[finite], x, y) for edge in (line.low, line.high))
        yield tag("polygon", points=" ".join([*there, *reversed(back)]), class_=f"band {line.style}")
    path, drawing = [], False
    for point, known in zip(_points(line.x, line.y, x, y), finite, strict=True):
        if known:
            path.append(("L" if drawing else "M") + point)
        drawing = bool(known)
    yield tag("path", d="".join(path), class_=f"line {line.style}" + (" thin" if line.thin else ""))


def _points(xs: Array, ys: Array, x: Scale, y: Scale) -> list[str]:
    return [f"{x(a):.1f},{y(b) if np.isfinite(b) else 0:.1f}" for a, b in zip(xs, ys, strict=True)]


def _readout(series: Sequence[Series], x: Scale) -> dict[str, Any]:
    """The data that the page shows at the pointer."""
    return {"start": x.start / WIDTH, "end": x.end / WIDTH, "most": x.high, "series": [*map(_values, series)]}


def _values(line: Series) -> dict[str, Any]:
    """A line from its first known point to its last known point."""
    known = np.flatnonzero(np.isfinite(line.y))
    span = slice(known[0], known[-1] + 1)
    band = None
    if line.low is not None and line.high is not None:
        band = [f"{_shown(a)} to {_shown(b)}" for a, b in zip(line.low[span], line.high[span], strict=True)]
    return {
        "name": line.name,
        "x": [round(float(v), 1) for v in line.x[span]],
        "y": [_shown(v) for v in line.y[span]],
        "band": band,
    }


def _shown(value: float) -> str:
    return si(float(value)) if np.isfinite(value) else "-"
