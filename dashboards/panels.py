"""Builds the panels of the dashboards: one function per kind, and one color per state.

Absence of data is grey in every panel: no rows, no value, a failed query. Green is stated by a value only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import stat as build_stat
from grafana_foundation_sdk.builders import statetimeline as build_timeline
from grafana_foundation_sdk.builders import table as build_table
from grafana_foundation_sdk.builders import timeseries as build_series
from grafana_foundation_sdk.models import common, dashboard

from dashboards.clickhouse import SOURCE, Target
from dashboards.queries import Query

HEALTHY, INFO, WARNING, CRITICAL, UNOBSERVED = "#009E73", "#56B4E9", "#E69F00", "#D55E00", "#8E8E8E"
"""Okabe and Ito's palette, which color-blind people can distinguish."""
SEVERITY = {"critical": CRITICAL, "warning": WARNING, "info": INFO}
HEALTH = {
    "-1": ("unobserved", UNOBSERVED), "0": ("healthy", HEALTHY), "1": ("info", INFO), "2": ("warning", WARNING),
    "3": ("critical", CRITICAL),
}  # fmt: skip
"""The values of queries.HEALTH."""
STATES = {
    "approved": INFO, "accepted": INFO, "waiting": WARNING, "denied": WARNING, "expired": WARNING,
    "no_answer": CRITICAL, "failed": CRITICAL, "escalated": CRITICAL, "drained": WARNING, "verifying": INFO,
    "restoring": INFO, "probation": INFO, "closed": HEALTHY, "shadow": UNOBSERVED,
}  # fmt: skip
"""The states of remediations."""

Steps = Sequence[tuple[float | None, str]]
UNKNOWN = "unknown"
"""The text of a panel without data."""
ABSENT = "–"
"""The text of an empty cell."""


@dataclass(frozen=True, slots=True)
class Column:
    """The look of one column of a table; width in pixels, where None shares what is left."""

    title: str = ""
    width: int | None = None
    unit: str = ""
    colors: Mapping[str, str] | None = None
    """The colors of its values."""
    wrap: bool = False
    hidden: bool = False
    links: Mapping[str, str] | None = None
    """URLs by their titles; the cell opens them."""


def colored(texts: Mapping[str, tuple[str, str]]) -> list[dashboard.ValueMapping]:
    """Return a mapping from each value to its text and color."""
    options = {
        value: dashboard.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(texts.items())
    }
    return [dashboard.ValueMap(options=options)]


def absent(text: str) -> dashboard.SpecialValueMap:
    """Return a mapping from null and NaN to a grey text."""
    result = dashboard.ValueMappingResult(text=text, color=UNOBSERVED, index=0)
    match = dashboard.SpecialValueMatch.NULL_AND_NAN
    return dashboard.SpecialValueMap(options=dashboard.DashboardSpecialValueMapOptions(match=match, result=result))


def steps(*given: tuple[float | None, str]) -> build.ThresholdsConfig:
    """Colors from a value upwards; the first has no value."""
    made = [dashboard.Threshold(value=value, color=color) for value, color in given]
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(made)


def stat(
    title: str, description: str, query: Query, given: Steps, *, unit: str = "short", width: int = 4
) -> build_stat.Panel:
    """Return a panel with the newest value of each column, in the color of `given`; grey without a value."""
    return (
        build_stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(Target(query))
        .unit(unit)
        .no_value(UNKNOWN)
        .mappings([absent(UNKNOWN)])
        .thresholds(steps((None, UNOBSERVED), *given))
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(build_common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .height(4)
        .span(width)
    )


def series(
    title: str, description: str, query: Query, *, unit: str = "short", bars: bool = False, width: int = 12
) -> build_series.Panel:
    """Lines over time, or stacked bars; the second column names them."""
    panel = (
        build_series.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(Target(query))
        # Under ten seconds a bucket may hold no reading, and nothing would look like zero.
        .interval("10s")
        .unit(unit)
        .min(0)
        .display_name(f"${{__field.labels.{query.columns[1]}}}")
        .legend(build_common.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST).show_legend(True))
        .tooltip(build_common.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        .height(8)
        .span(width)
    )
    if bars:
        panel.draw_style(common.GraphDrawStyle.BARS).fill_opacity(80)
        panel.stacking(build_common.StackingConfig().mode(common.StackingMode.NORMAL))
    return panel


def table(
    title: str,
    description: str,
    query: Query,
    columns: Mapping[str, Column],
    *,
    empty: str,
    height: int = 8,
    width: int = 12,
) -> build_table.Panel:
    """Rows as they come, with the text `empty` where there are none."""
    panel = (
        build_table.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(Target(query))
        .thresholds(steps((None, "text")))
        .no_value(empty)
        .show_header(True)
        .height(height)
        .span(width)
    )
    for name in query.columns:
        panel.override_by_name(name, _properties(columns[name]))
    return panel


def timeline(title: str, description: str, query: Query) -> build_timeline.Panel:
    """Return a panel with the state of each place over time."""
    return (
        build_timeline.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(Target(query))
        .interval("10s")
        .max_data_points(120)  # each is a cell of each place
        .mappings([*colored(HEALTH), absent("unobserved")])
        # Colors are of the mappings; by thresholds, all that has no step is green.
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.FIXED).fixed_color(UNOBSERVED))
        .display_name(f"${{__field.labels.{query.columns[1]}}}")
        .no_value("no place of the inventory is selected")
        .show_value(common.VisibilityMode.NEVER)
        .legend(build_common.VizLegendOptions().show_legend(True))
        .merge_values(True)
        .row_height(0.9)
        .height(10)
        .span(24)
    )


def _properties(column: Column) -> list[dashboard.DynamicConfigValue]:
    """Return the overrides of one column."""
    cell: dict[str, Any] = {"type": "auto", "wrapText": column.wrap}
    # Grafana writes the panel's text for no rows into every empty cell too.
    made: dict[str, Any] = {"noValue": ABSENT}
    if column.title:
        made["displayName"] = column.title
    if column.width is not None:
        made["custom.width"] = column.width
    if column.unit:
        made["unit"] = column.unit
    if column.colors is not None:
        cell = {"type": "color-text"}
        texts = {value: (value, color) for value, color in column.colors.items()}
        made["mappings"] = colored(texts)
    if column.links is not None:
        made["links"] = [{"title": title, "url": url} for title, url in column.links.items()]
    if column.hidden:
        made["custom.hidden"] = True
    made["custom.cellOptions"] = cell
    return [dashboard.DynamicConfigValue(id_val=name, value=value) for name, value in made.items()]
