"""Computes what a person sees in a panel, by the rules of Grafana 11: thresholds, mappings, absent values.

Only the kinds and settings that the dashboards use are known; others raise.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

GREEN = "green"
"""The color of a value for which thresholds have no step."""


class Shown(NamedTuple):
    """The text and color of one value."""

    text: str
    color: str


def stat(panel: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] | None) -> list[Shown]:
    """Return the tiles of a stat panel for the rows of its query; None is a failed query."""
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
