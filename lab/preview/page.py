"""Draws a board as a page, from its JSON and the rows of its queries: a picture of Grafana's view, for the docs."""

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from dashboards.board import opened_panels
from lab.preview import drawing
from lab.preview.reading import Rows, Run, Shown, View, answers, stat, state, text

CELL, GAP = 30, 8
"""Grafana's grid in pixels: the height of a unit, and the gap between panels."""
_STYLE = """
body { margin: 0; font: 13px "DejaVu Sans", sans-serif; background: %(page)s; color: %(text)s; }
h1 { font-size: 17px; margin: 8px 12px; height: 24px; font-weight: 600; overflow: hidden; }
h1 span { font-size: 12px; font-weight: 400; color: %(dim)s; }
.panel { position: absolute; background: %(panel)s; border: 1px solid %(line)s; overflow: hidden; border-radius: 3px; }
.panel h2 { font-size: 13px; margin: 4px 8px; font-weight: 600; height: 18px; }
.tiles { display: flex; gap: 4px; padding: 0 6px; height: calc(100%% - 32px); }
.tiles div { flex: 1; display: flex; flex-direction: column; justify-content: center; align-items: center; color: #fff;
  border-radius: 3px; font-size: 12px; text-align: center; overflow: hidden; }
.tiles b { font-size: 24px; }
table { border-collapse: collapse; width: 100%%; font-size: 12px; }
td, th { text-align: left; padding: 3px 6px; border-bottom: 1px solid %(line)s; overflow: hidden; white-space: nowrap;
  text-overflow: ellipsis; }
td.wrap { white-space: normal; }
.bar { height: 14px; display: inline-block; vertical-align: middle; margin-right: 4px; }
.empty { color: %(dim)s; text-align: center; padding: 24px 10px; }
svg text.axis { font-size: 11px; fill: %(dim)s; } svg .grid { stroke: %(line)s; } svg .node { fill: %(panel)s; }
"""
_THEMES = {
    "dark": {"page": "#111217", "panel": "#181b1f", "text": "#ccccdc", "dim": "#9a9aab", "line": "#2c2f36"},
    "light": {"page": "#f4f5f5", "panel": "#ffffff", "text": "#24292e", "dim": "#5f6470", "line": "#dcdde0"},
}


def page(board: Mapping[str, Any], run: Run, view: View, width: int = 1600, theme: str = "dark") -> tuple[str, int]:
    """Return the page of a board opened with the view, and its height in pixels."""
    found: dict[str, list[Rows]] = {}
    for answer in answers(board, run, view):
        found.setdefault(f"{answer.panel}", []).append(answer.rows)
    parts, bottom = [], 0
    unit = (width - GAP) / 24
    for panel in opened_panels(board):
        place = panel["gridPos"]
        wide, high = round(place["w"] * unit) - GAP, place["h"] * (CELL + GAP) - GAP
        top = 40 + place["y"] * (CELL + GAP)
        body = _body(panel, found.get(str(panel["id"]), []), view, wide, high - 30)
        title = _filled(panel["title"], view)
        parts.append(
            f'<div class="panel" style="left:{GAP + place["x"] * unit:.0f}px;top:{top}px;width:{wide}px;'
            f'height:{high}px">'
            f"<h2>{escape(title)}</h2>{body}</div>"
        )
        bottom = max(bottom, top + high + GAP)
    head = f"<h1>{escape(board['title'])} <span>{escape(board['description'])}</span></h1>"
    style = _STYLE % _THEMES[theme]
    return f'<!doctype html><meta charset="utf-8"><style>{style}</style>{head}{"".join(parts)}', bottom


def _filled(title: str, view: View) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: ", ".join(view.variables.get(found[1], ("",))), title)


def _body(panel: Mapping[str, Any], queries: list[Rows], view: View, width: int, height: int) -> str:
    empty = f'<div class="empty">{escape(panel.get("fieldConfig", {}).get("defaults", {}).get("noValue", ""))}</div>'
    match panel["type"]:
        case "row":
            return ""
        case "stat":
            return _tiles(panel, queries[0])
        case "table":
            return (_matrix if panel.get("transformations") else _table)(panel, queries[0]) or empty
        case "state-timeline":
            return drawing.states(panel, queries[0], view.from_s, view.to_s, width, height) or empty
        case "timeseries":
            return drawing.lines(panel, queries, view.from_s, view.to_s, width, height) or empty
        case "nodeGraph":
            return drawing.graph(queries[0], queries[1], width, height)
        case other:
            raise LookupError(f"a panel of type {other}")


def _tiles(panel: Mapping[str, Any], rows: Rows) -> str:
    defaults, looks = panel["fieldConfig"]["defaults"], _looks(panel)
    if panel["options"]["reduceOptions"].get("values"):
        shown = [(state(panel, row["health"]), next(iter(row.values()))) for row in rows]
        tiles = [(Shown(str(name), one.color), one.text) for one, name in shown]
    else:
        names = [looks.get(name, {}).get("displayName", name) for name in rows[-1]] if rows else [""]
        units = [looks.get(name, {}).get("unit", defaults.get("unit", "short")) for name in rows[-1]] if rows else [""]
        colors = [looks.get(name, {}).get("color", {}).get("fixedColor") for name in rows[-1]] if rows else [None]
        tiles = []
        for one, name, unit, color in zip(stat(panel, rows), names, units, colors, strict=True):
            value = one.text
            if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", value):
                value = text(float(value), unit)
            is_known = one.text != defaults.get("noValue")
            tiles.append((Shown(value, color if color and is_known else one.color), name if len(names) > 1 else ""))
    cells = [
        f'<div style="background:{one.color}"><b>{escape(one.text)}</b>{escape(name)}</div>' for one, name in tiles
    ]
    return f'<div class="tiles">{"".join(cells)}</div>'


def _looks(panel: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the overrides by the names of fields; a pattern is replaced by its names."""
    looks: dict[str, dict[str, Any]] = {}
    for one in panel["fieldConfig"]["overrides"]:
        properties = {own["id"]: own["value"] for own in one["properties"]}
        options = str(one["matcher"]["options"])
        for name in options.split("|") if one["matcher"]["id"] == "byRegexp" and "." not in options else (options,):
            looks.setdefault(name, {}).update(properties)
    return looks


def _table(panel: Mapping[str, Any], rows: Rows) -> str:
    if not rows:
        return ""
    looks = {name: look for name, look in _looks(panel).items() if not look.get("custom.hidden") and name in rows[0]}
    head = "".join(
        f'<th style="width:{look["custom.width"]}px">{escape(look.get("displayName", ""))}</th>'
        if "custom.width" in look
        else f"<th>{escape(look.get('displayName', name))}</th>"
        for name, look in looks.items()
    )
    body = "".join(
        "<tr>" + "".join(_cell(row[name], look) for name, look in looks.items()) + "</tr>" for row in rows[:40]
    )
    return f'<table style="table-layout:fixed"><tr>{head}</tr>{body}</table>'


def _cell(value: Any, look: Mapping[str, Any]) -> str:
    cell = look.get("custom.cellOptions", {})
    if value in (None, ""):
        return f"<td>{escape(look.get('noValue', ''))}</td>"
    shown = text(value, look.get("unit", "short"), look.get("decimals"))
    if isinstance(value, str):
        shown = re.sub(r"(\d\d:\d\d:\d\d)\.\d+$", r"\1", value)
    color = ""
    for mapping in look.get("mappings", ()):
        if str(value) in mapping["options"]:
            color = mapping["options"][str(value)]["color"]
    steps = look.get("thresholds", {}).get("steps", ())
    if steps and isinstance(value, int | float):
        color = [step["color"] for step in steps if step["value"] is None or step["value"] <= value][-1]
    if cell.get("type") == "gauge" and isinstance(value, int | float):
        share = min(max(value / look["max"], 0), 1)
        bar = f'<span class="bar" style="width:{share * 60:.0f}%;background:{color}"></span>'
        return f"<td>{bar}{escape(shown)}</td>"
    kind = ' class="wrap"' if cell.get("wrapText") else ""
    style = f' style="color:{color}"' if color and color != "text" else ""
    return f"<td{kind}{style}>{escape(shown)}</td>"


def _matrix(panel: Mapping[str, Any], rows: Rows) -> str:
    if not rows:
        return ""
    options = panel["transformations"][0]["options"]
    row_field, column_field, value_field = options["rowField"], options["columnField"], options["valueField"]
    columns = list(dict.fromkeys(row[column_field] for row in rows))
    cells = {(row[row_field], row[column_field]): row[value_field] for row in rows}
    look = _looks(panel)["^(rail|fabric|plane).*"]
    head = "".join(f"<th>{escape(str(column))}</th>" for column in columns)
    body = ""
    for name in sorted(dict.fromkeys(row[row_field] for row in rows)):
        body += f"<tr><td>{escape(str(name))}</td>"
        for column in columns:
            value = cells.get((name, column))
            if "mappings" in look and value is not None:
                (shown,) = (one["options"][str(value)] for one in look["mappings"] if str(value) in one["options"])
                body += f'<td style="background:{shown["color"]};color:#fff;text-align:center">{shown["text"]}</td>'
            else:
                body += _cell(value, look)
        body += "</tr>"
    return f'<table style="table-layout:fixed"><tr><th style="width:90px"></th>{head}</tr>{body}</table>'
