"""Defines the colors and texts of states, the same on every board.

Color-blind people can distinguish the palette (Okabe and Ito), and every color has a text. Every panel is grey without
data: no rows, no value, a failed query. Only a value makes a panel green.
"""

from collections.abc import Mapping

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

HEALTHY, INFO, WARNING, CRITICAL, UNOBSERVED = "#009E73", "#56B4E9", "#E69F00", "#D55E00", "#8E8E8E"
SEVERITY = {"critical": CRITICAL, "warning": WARNING, "info": INFO}
LEVELS = {
    "-1": ("unobserved", UNOBSERVED), "0": ("healthy", HEALTHY), "1": ("info", INFO), "2": ("warning", WARNING),
    "3": ("critical", CRITICAL),
}  # fmt: skip
"""The text and color of each level of a place."""
ARCS = {level: f"arc__{text}" for level, (text, _) in LEVELS.items()}
"""The column of each level in a query of nodes; the arc of the node's level is the whole ring."""
PORT_LEVELS = {
    "-1": ("unobserved", UNOBSERVED), "0": ("up", HEALTHY), "1": ("shut", INFO), "3": ("down", CRITICAL),
}  # fmt: skip
PORT_STATES = {"up": HEALTHY, "shut": INFO, "down": CRITICAL, "unobserved": UNOBSERVED}
NOW = {"open": WARNING, "over": UNOBSERVED}
STATES = {
    "approved": INFO, "accepted": INFO, "waiting": WARNING, "denied": WARNING, "expired": WARNING,
    "no_answer": CRITICAL, "failed": CRITICAL, "escalated": CRITICAL, "drained": WARNING, "verifying": INFO,
    "restoring": INFO, "probation": INFO, "closed": HEALTHY, "shadow": UNOBSERVED,
}  # fmt: skip
"""The text and color of each state of a remediation."""
VERDICTS = {
    "0": ("clean", HEALTHY), "1": ("NOT KNOWN: too little was observed", UNOBSERVED), "2": ("NOT CLEAN", WARNING),
    "3": ("NOT CLEAN", CRITICAL),
}  # fmt: skip
RAIL_COLORS = {
    f"rail {number}": color for number, color in enumerate(
        ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#BBBBBB")
    )
}  # fmt: skip
"""The colors of the lines of eight rails."""
UNKNOWN = "unknown"
"""The text of a panel without data."""
ABSENT = "–"
"""The text of an empty cell."""


def colored(texts: Mapping[str, tuple[str, str]]) -> list[dashboard.ValueMapping]:
    """Return a mapping from each value to its text and color."""
    options = {
        value: dashboard.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(texts.items())
    }
    return [dashboard.ValueMap(options=options)]


def absent(text: str, color: str = UNOBSERVED) -> dashboard.SpecialValueMap:
    """Return a mapping from null and NaN to a text."""
    result = dashboard.ValueMappingResult(text=text, color=color, index=0)
    match = dashboard.SpecialValueMatch.NULL_AND_NAN
    return dashboard.SpecialValueMap(options=dashboard.DashboardSpecialValueMapOptions(match=match, result=result))


def steps(*given: tuple[float | None, str]) -> build.ThresholdsConfig:
    """Return thresholds: each color applies from its value upwards; the first has no value."""
    made = [dashboard.Threshold(value=value, color=color) for value, color in given]
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(made)


def fixed(color: str) -> build.FieldColor:
    """Return one color for all values that no mapping colors; with thresholds, values without a step would be green."""
    return build.FieldColor().mode(dashboard.FieldColorModeId.FIXED).fixed_color(color)


NEUTRAL = [dashboard.DynamicConfigValue(id_val="color", value=fixed("#0072B2").build())]
"""The color of values that are neither good nor bad."""
