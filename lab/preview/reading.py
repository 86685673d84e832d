"""Opens a board on a ClickHouse: chooses the values of its variables, and runs the queries of its panels."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.preview.macros import View

Rows = list[dict[str, Any]]
Run = Callable[[str], Rows]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of one query of a panel, with the time that it took."""

    panel: int
    title: str
    kind: str
    target: int
    rows: Rows
    seconds: float


def opened(board: Mapping[str, Any], run: Run, view: View, chosen: Mapping[str, str] | None = None) -> View:
    """Return the view with a value of each variable, as a board has that was just opened by a link with `chosen`.

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
    for panel in board["panels"]:
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
