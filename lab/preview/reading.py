"""Reads a board as Grafana 11 does: its variables and macros, its queries, and the displayed values.

A macro, variable, panel or setting that the dashboards do not use raises an error: a board must not rely on a feature
that no test expands.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dashboards.board import opened_panels

_CALLS = {
    "timeFilter": "{0} >= toDateTime({from_s}) AND {0} <= toDateTime({to_s})",
    "adHocFilters": "additional_table_filters={{}}",
    "timeInterval": "toStartOfInterval(toDateTime({0}), INTERVAL {interval_s} second)",
}
_NAMES = {"fromTime": "toDateTime({from_s})", "toTime": "toDateTime({to_s})", "interval_s": "{interval_s}"}
_CALL = re.compile(r"\$__(\w+)\(([^()]*)\)")
_NAME = re.compile(r"\$__(\w+)")
_VARIABLE = re.compile(r"\$\{(\w+):(\w+)\}")


@dataclass(frozen=True)
class View:
    """The choices on the dashboard: Unix seconds, the width of a bucket, and the values of each variable."""

    from_s: int
    to_s: int
    interval_s: int
    variables: Mapping[str, Sequence[str]]

    def expand(self, sql: str) -> str:
        """Return the query as ClickHouse receives it; raise LookupError for an unknown macro or variable."""
        sql = _VARIABLE.sub(self._variable, sql)
        if "${" in sql:
            raise LookupError(f"a variable without a format: {sql}")
        sql = _CALL.sub(lambda found: self._filled(_CALLS, found[1], found[2]), sql)
        return _NAME.sub(lambda found: self._filled(_NAMES, found[1]), sql)

    def _filled(self, known: Mapping[str, str], name: str, *arguments: str) -> str:
        return known[name].format(*arguments, from_s=self.from_s, to_s=self.to_s, interval_s=self.interval_s)

    def _variable(self, found: re.Match[str]) -> str:
        name, form = found.groups()
        values = self.variables[name]
        if form == "singlequote":
            escaped = [value.replace("'", "\\'") for value in values]
        elif form == "sqlstring":
            escaped = [value.replace("'", "''") for value in values]
        else:
            raise LookupError(f"the format {form} of {name}")
        return ",".join(f"'{value}'" for value in escaped)


Rows = list[dict[str, Any]]
Run = Callable[[str], Rows]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of one query of a panel, and its duration."""

    panel: int
    title: str
    kind: str
    target: int
    rows: Rows
    seconds: float


def opened(board: Mapping[str, Any], run: Run, view: View, chosen: Mapping[str, str] | None = None) -> View:
    """Return the view with a value for each variable, as if a link with `chosen` had just opened the board.

    Raises LookupError for a text box that expands to nothing, which makes a query invalid.
    """
    chosen = chosen or {}
    for variable in board["templating"]["list"]:
        name, current = variable["name"], variable.get("current", {})
        values: Sequence[str]
        match variable["type"]:
            case "datasource" | "constant":
                continue
            case "adhoc":
                values = (chosen.get(name, ""),)
            case "textbox":
                if "query" not in variable or "value" not in current:
                    raise LookupError(f"the text box {name} has no value")
                values = (chosen.get(name, current["value"]),)
            case "query" | "custom":
                options = _options(variable, run, view)
                all_of_them = current["value"] in ("$__all", ["$__all"])
                values = (chosen[name],) if name in chosen else options if all_of_them else options[:1]
            case other:
                raise LookupError(f"a variable of type {other}")
        view = replace(view, variables={**view.variables, name: values or ("",)})
    return view


def _options(variable: Mapping[str, Any], run: Run, view: View) -> Sequence[str]:
    if variable["type"] == "custom":
        return tuple(variable["query"].split(","))
    return [str(next(iter(row.values()))) for row in run(view.expand(variable["query"]))]


def panel_queries(board: Mapping[str, Any], view: View) -> Iterator[tuple[Mapping[str, Any], int, str]]:
    """Yield each query of each panel: the panel, the number of its target, and the SQL."""
    for panel in opened_panels(board):
        width = max(int(float(str(panel.get("interval", "1s")).rstrip("s"))), 1)
        points = panel.get("maxDataPoints", 500)
        interval = max(view.interval_s, width, round((view.to_s - view.from_s) / points))
        for number, target in enumerate(panel.get("targets", ())):
            yield panel, number, replace(view, interval_s=interval).expand(target["rawSql"])


def answers(board: Mapping[str, Any], run: Run, view: View) -> list[Answer]:
    """Return the rows of every query of every panel."""
    found = []
    for panel, number, sql in panel_queries(board, view):
        began = time.perf_counter()
        rows = run(sql)
        found.append(Answer(panel["id"], panel["title"], panel["type"], number, rows, time.perf_counter() - began))
    return found


GREEN = "green"
"""The color of a value if thresholds have no step for it."""


class Shown(NamedTuple):
    """The text and color of one value."""

    text: str
    color: str


def stat(panel: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] | None) -> list[Shown]:
    """Return the tiles of a stat panel for the rows of its query; None stands for a failed query."""
    if panel["options"]["colorMode"] != "background_solid" or panel["options"]["reduceOptions"]["calcs"] != [
        "lastNotNull"
    ]:
        raise LookupError("another kind of stat")
    defaults = panel["fieldConfig"]["defaults"]
    if not rows:
        return [Shown(defaults.get("noValue", "No data"), _step_color(defaults, None))]
    return [_shown(defaults, value) for value in rows[-1].values()]


def state(panel: Mapping[str, Any], value: float | None) -> Shown:
    """Return a state of a timeline."""
    return _shown(panel["fieldConfig"]["defaults"], value)


def _shown(defaults: Mapping[str, Any], value: Any) -> Shown:
    number = float(value) if value is not None else None
    is_absent = number is None or math.isnan(number)
    for mapping in defaults.get("mappings", ()):
        options = mapping["options"]
        if mapping["type"] == "special":
            result = options["result"] if is_absent and options["match"] == "null+nan" else None
        else:
            result = options.get(f"{number:g}") if number is not None else None
        if result is not None:
            return Shown(result["text"], result["color"])
    if is_absent:
        return Shown(defaults.get("noValue", "No data"), _step_color(defaults, None))
    return Shown(f"{number:g}", _step_color(defaults, number))


def _step_color(defaults: Mapping[str, Any], value: float | None) -> str:
    color = defaults.get("color", {})
    if color.get("mode") == "fixed":
        return str(color["fixedColor"])
    steps = defaults.get("thresholds", {}).get("steps", [])
    reached = [one["color"] for one in steps if one["value"] is None or (value is not None and one["value"] <= value)]
    return reached[-1] if reached else GREEN


_SI = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_PER_S = {"bps": "b/s", "pps": "p/s", "suffix:/s": "/s", "recps": "rec/s", "rowsps": "rows/s", "bytes": "B"}


def text(value: Any, unit: str, decimals: int | None = None) -> str:
    """Return a value with its unit."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    match unit:
        case "percentunit":
            return f"{100 * value:.{1 if decimals is None else decimals}f}%"
        case "sci":
            return f"{value:.2e}"
        case "s" | "dtdurations":
            return duration(float(value))
        case "celsius":
            return f"{value:.1f} °C"
        case "dBm" | "h":
            return f"{value:.2f} {unit}"
        case _:
            return f"{_short(value, decimals)}{' ' + _PER_S[unit] if unit in _PER_S else ''}"


def _short(value: float, decimals: int | None) -> str:
    for name, factor in _SI:
        if abs(value) >= factor:
            return f"{value / factor:.{2 if decimals is None else decimals}f} {name}"
    return f"{value:.{decimals}f}" if decimals is not None else f"{value:.3g}"


def duration(seconds: float) -> str:
    """Return seconds in the two largest units."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    parts = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)]
    found = []
    for name, size in parts:
        count, seconds = divmod(seconds, size)
        if count:
            found.append(f"{count:.0f} {name}")
    return " ".join(found[:2])
