"""Small drawings in SVG: lines over axes, and bars; readable on a phone, in light and dark, and by a screen reader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from semiope._arrays import Floats

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 20, 12, 44
# Classes, whose colours the style sheet gives for light and dark, and dashes that tell lines apart without colours.
LINES = (("one", ""), ("two", "6 3"), ("three", "2 3"), ("four", "9 3 2 3"))


class Line(NamedTuple):
    """A named line through points."""

    name: str
    x: Floats
    y: Floats


class Axis(NamedTuple):
    """What is shown along an axis, and its range."""

    label: str
    low: float
    high: float
    percent: bool = False

    def ticks(self) -> list[float]:
        """Round numbers, some five, within the range."""
        span = self.high - self.low
        if not span > 0:
            return [self.low]
        step = 10.0 ** math.floor(math.log10(span / 4))
        step *= next(factor for factor in (1, 2, 2.5, 5, 10) if span / (step * factor) <= 5)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def text(self, tick: float) -> str:
        """A tick's number."""
        return f"{100 * tick:g}%" if self.percent else f"{tick:,.6g}"

    def share(self, value: float) -> float:
        """Where a value lies between the ends."""
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5


def lines(title: str, description: str, x: Axis, y: Axis, drawn: Sequence[Line], *, stairs: bool = False) -> str:
    """A chart of lines with a legend."""
    parts, legend = [_frame(x, y)], []
    for (style, dashes), line in zip(LINES * (1 + len(drawn) // 4), drawn, strict=False):
        points = [(_across(x, a), _up(y, b)) for a, b in zip(line.x, line.y, strict=True) if math.isfinite(b)]
        parts.append(_stroke(style, dashes, _path(points, stairs=stairs)))
        sample = _stroke(style, dashes, "M0 4H24")
        key = f'<svg viewBox="0 0 24 8" width="24" height="8" aria-hidden="true">{sample}</svg>'
        legend.append(f'<span class="key">{key} {escape(line.name)}</span>')
    return f'<div class="legend">{"".join(legend)}</div>' + drawing(title, description, "".join(parts))


def text(x: float, y: float, content: str, anchor: str = "start") -> str:
    """Words at a point."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def box(style: str, x: float, y: float, width: float, height: float) -> str:
    """A rectangle."""
    return f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{max(width, 0):.1f}" height="{height:g}"/>'


def _stroke(style: str, dashes: str, path: str) -> str:
    return f'<path class="line {style}" d="{path}" stroke-dasharray="{dashes}"/>'


def drawing(title: str, description: str, content: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    """An image that says what it shows."""
    told = escape(f"{title}. {description}", quote=True)
    return f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{told}">{content}</svg>'


def strip(axis: Axis, low: float, value: float, high: float, today: float | None, light: str) -> str:
    """An interval with its middle on a strip, for a row of a table; what leaves the axis ends in an arrow."""
    ends = [min(max(axis.share(end), -0.02), 1.02) for end in (low, high)]
    x = [8 + 184 * end for end in (*ends, axis.share(value))]
    parts = []
    if today is not None and 0 <= axis.share(today) <= 1:
        at = 8 + 184 * axis.share(today)
        parts.append(f'<path class="today" d="M{at:.1f} 0V24"/>')
    parts.append(f'<path class="whisker {light}" d="M{x[0]:.1f} 12H{x[1]:.1f}"/>')
    for at, leaves, side in ((x[0], axis.share(low) < 0, -1), (x[1], axis.share(high) > 1, 1)):
        end = f"M{at - side * 5:.1f} 8L{at:.1f} 12L{at - side * 5:.1f} 16" if leaves else f"M{at:.1f} 8V16"
        parts.append(f'<path class="whisker {light}" d="{end}"/>')
    if 0 <= axis.share(value) <= 1:
        parts.append(mark(x[2], 12, light, 3.5))
    return f'<svg class="strip" viewBox="0 0 200 24" aria-hidden="true">{"".join(parts)}</svg>'


def mark(x: float, y: float, light: str, size: float = 4.5) -> str:
    """A light by shape too: circle, triangle, square."""
    if light == "green":
        return f'<circle class="{light}" cx="{x:.1f}" cy="{y:g}" r="{size:g}"/>'
    if light == "amber":
        return f'<path class="{light}" d="M{x:.1f} {y - 1.2 * size:g}l{1.2 * size:g} {2.2 * size:g}h{-2.4 * size:g}z"/>'
    return f'<path class="{light}" d="M{x - size:.1f} {y - size:g}h{2 * size:g}v{2 * size:g}h{-2 * size:g}z"/>'


def lamp(light: str) -> str:
    """A light with its name, for text."""
    shape = f'<svg viewBox="0 0 14 14" width="14" height="14" aria-hidden="true">{mark(7, 7, light)}</svg>'
    return f'<span class="lamp">{shape} {light}</span>'


def _frame(x: Axis, y: Axis) -> str:
    parts = []
    for tick in y.ticks():
        at = _up(y, tick)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{escape(y.text(tick))}</text>')
    for tick in x.ticks():
        at = _across(x, tick)
        parts.append(
            f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(x.text(tick))}</text>'
        )
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x.label, "middle"))
    at = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text transform="translate(12 {at}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text>')
    return "".join(parts)


def _across(axis: Axis, value: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * axis.share(value)


def _up(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * axis.share(value)


def _path(points: Sequence[tuple[float, float]], *, stairs: bool) -> str:
    if not points:
        return ""
    found = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for x, y in points[1:]:
        found.append(f"H{x:.1f}V{y:.1f}" if stairs else f"L{x:.1f} {y:.1f}")
    return "".join(found)
