"""Draws the panels over time and the graph as SVG, from the rows of their queries."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from dashboards.looks import ARCS, LEVELS
from lab.preview.reading import Rows, state, text

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#8E8E8E")
_LEFT, _TOP, _BOTTOM = 62, 6, 20


def seconds(moment: str) -> float:
    """Return a time of ClickHouse's JSON as Unix seconds."""
    return datetime.fromisoformat(moment.split(".", 1)[0]).replace(tzinfo=UTC).timestamp()


def _times(from_s: float, to_s: float, width: float, height: float) -> list[str]:
    shape = "%H:%M" if to_s - from_s <= 86_400 else "%d. %H:%M"
    out = []
    for step in range(6):
        x = _LEFT + (width - _LEFT - 8) * step / 5
        at = datetime.fromtimestamp(from_s + (to_s - from_s) * step / 5, UTC)
        out.append(f'<text x="{x:.0f}" y="{height - 5}" text-anchor="middle" class="axis">{at:{shape}}</text>')
    return out


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps times and values to positions in a plot."""

    from_s: float
    to_s: float
    low: float
    high: float
    is_log: bool
    width: int
    height: int

    def x(self, at_s: float) -> float:
        return _LEFT + (self.width - _LEFT - 8) * (at_s - self.from_s) / (self.to_s - self.from_s)

    def y(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
        return _TOP + self.height * (1 - (value - low) / ((high - low) or 1))

    def ticks(self) -> Iterator[float]:
        for step in range(4):
            if self.is_log:
                yield self.low * (self.high / self.low) ** (step / 3)
            else:
                yield self.low + (self.high - self.low) * step / 3


def lines(
    panel: Mapping[str, Any], queries: Sequence[Rows], from_s: float, to_s: float, width: int, height: int
) -> str:
    """Return the lines or bars of a time series, with its limits and its legend."""
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults.get("custom", {})
    is_log = custom.get("scaleDistribution", {}).get("type") == "log"
    points = _courses(queries, is_log=is_log)
    limits = [step for step in defaults.get("thresholds", {}).get("steps", ()) if step["value"] is not None]
    limits = limits if custom.get("thresholdsStyle", {}).get("mode") == "dashed" else []
    values = [value for course in points.values() for _, value in course]
    if not values:
        return ""
    low, high = min(values), max([*values, *(step["value"] for step in limits)])
    scale = _Scale(from_s, to_s, min(low, defaults.get("min", low)), high, is_log, width, height - _TOP - _BOTTOM - 18)
    out = _times(from_s, to_s, width, height - 18)
    for value in scale.ticks():
        out.append(_level_line(scale.y(value), width, 'class="grid"'))
        shown = text(value, defaults.get("unit", "short"))
        out.append(f'<text x="{_LEFT - 4}" y="{scale.y(value) + 4:.1f}" text-anchor="end" class="axis">{shown}</text>')
    dashed = [one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"] if _is_dashed(one)]
    out += _bars(points, scale) if custom.get("drawStyle") == "bars" else _lines(points, scale, dashed)
    out += _legend(list(points), width, height)
    for step in limits:
        look = f'stroke="{step["color"]}" stroke-width="1.5" stroke-dasharray="8 6"'
        out.append(_level_line(scale.y(step["value"]), width, look))
    return f'<svg width="{width}" height="{height}">{"".join(out)}</svg>'


Courses = Mapping[str, Sequence[tuple[float, float]]]


def _courses(queries: Sequence[Rows], *, is_log: bool) -> Courses:
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for rows in queries:
        for row in rows:
            moment, name, value = row.values()
            if value is not None and math.isfinite(float(value)) and (not is_log or value > 0):
                points[str(name)].append((seconds(moment), float(value)))
    return dict(sorted(points.items()))


def _level_line(y: float, width: int, look: str) -> str:
    return f'<line x1="{_LEFT}" x2="{width - 8}" y1="{y:.1f}" y2="{y:.1f}" {look}/>'


def _bars(points: Courses, scale: _Scale) -> list[str]:
    wide = max((scale.width - _LEFT) / 130, 2)
    stacked: dict[float, float] = defaultdict(float)
    out = []
    for number, course in enumerate(points.values()):
        for at_s, value in course:
            top, bottom = scale.y(stacked[at_s] + value), scale.y(stacked[at_s])
            stacked[at_s] += value
            out.append(
                f'<rect x="{scale.x(at_s):.1f}" y="{top:.1f}" width="{wide:.1f}" height="{bottom - top:.1f}"'
                f' fill="{COLORS[number % len(COLORS)]}"/>'
            )
    return out


def _lines(points: Courses, scale: _Scale, dashed: Sequence[str]) -> list[str]:
    out = []
    for number, (name, course) in enumerate(points.items()):
        dash = ' stroke-dasharray="6 5"' if any(re.search(pattern, name) for pattern in dashed) else ""
        path = " ".join(f"{scale.x(at_s):.1f},{scale.y(value):.1f}" for at_s, value in course)
        color = COLORS[number % len(COLORS)]
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"{dash}/>')
    return out


def _legend(names: Sequence[str], width: int, height: int) -> list[str]:
    shown = names[:8]
    return [
        f'<text x="{_LEFT + number * (width - _LEFT) / len(shown):.0f}" y="{height - 4}" class="axis"'
        f' style="fill:{COLORS[number]}">▬ {escape(name[:24])}</text>'
        for number, name in enumerate(shown)
    ]


def _is_dashed(override: Mapping[str, Any]) -> bool:
    return any(one["id"] == "custom.lineStyle" for one in override["properties"])


def states(panel: Mapping[str, Any], rows: Rows, from_s: float, to_s: float, width: int, height: int) -> str:
    """Return a row of colored intervals for each place, and the colors' texts."""
    places: dict[str, list[tuple[float, Any]]] = defaultdict(list)
    for row in rows:
        moment, name, value = row.values()
        places[str(name)].append((seconds(moment), value))
    if not places:
        return ""
    left = min(230, 20 + 7 * max(map(len, places)))
    high = (height - 44) / len(places)
    out, seen = [], {}
    for number, (name, course) in enumerate(sorted(places.items())):
        y = 2 + number * high
        out.append(
            f'<text x="{left - 6}" y="{y + high / 2 + 4:.1f}" text-anchor="end" class="axis">{escape(name)}</text>'
        )
        for (at_s, value), (end_s, _) in zip(course, [*course[1:], (to_s, None)], strict=True):
            shown = state(panel, value)
            seen[shown.text] = shown.color
            begin, end = (left + (width - left - 8) * (at - from_s) / (to_s - from_s) for at in (at_s, end_s))
            out.append(
                f'<rect x="{begin:.1f}" y="{y:.1f}" width="{end - begin + 0.4:.1f}" height="{high * 0.9:.1f}"'
                f' fill="{shown.color}"/>'
            )
    for number, (name, color) in enumerate(seen.items()):
        out.append(
            f'<text x="{left + number * 110}" y="{height - 4}" class="axis" style="fill:{color}">■ {name}</text>'
        )
    for step in range(6):
        x = left + (width - left - 8) * step / 5
        at = datetime.fromtimestamp(from_s + (to_s - from_s) * step / 5, UTC)
        out.append(f'<text x="{x:.0f}" y="{height - 22}" text-anchor="middle" class="axis">{at:%H:%M}</text>')
    return f'<svg width="{width}" height="{height}">{"".join(out)}</svg>'


def graph(nodes: Rows, edges: Rows, width: int, height: int) -> str:
    """Return the nodes at the positions of their query, around the center, with their connections."""
    places = {one["id"]: (width / 2 + one["fixedx"], height / 2 + one["fixedy"], one) for one in nodes}
    out = []
    for edge in edges:
        if edge["source"] in places and edge["target"] in places and edge["source"] != edge["target"]:
            (x, y, _), (x2, y2, _) = places[edge["source"]], places[edge["target"]]
            out.append(f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="{edge["color"]}"/>')
    for x, y, node in places.values():
        color = next(LEVELS[level][1] for level, arc in ARCS.items() if node[arc])
        out.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="15" class="node" stroke="{color}" stroke-width="5"/>')
        label = " ".join(filter(None, (node["mainstat"], node["secondarystat"])))
        out.append(
            f'<text x="{x:.0f}" y="{y + 29:.0f}" text-anchor="middle" class="axis">{escape(node["title"])}</text>'
        )
        out.append(
            f'<text x="{x:.0f}" y="{y + 41:.0f}" text-anchor="middle" class="axis" style="fill:{color}">'
            f"{escape(label)}</text>"
        )
    return f'<svg width="{width}" height="{height}">{"".join(out)}</svg>'
