"""Builds the dashboard's panels: one function per kind, and one color per severity."""

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import stat as build_stat
from grafana_foundation_sdk.builders import statetimeline as build_timeline
from grafana_foundation_sdk.builders import table as build_table
from grafana_foundation_sdk.builders import timeseries as build_series
from grafana_foundation_sdk.models import common, dashboard

from dashboards.clickhouse import SOURCE, Target
from dashboards.queries import Query

RED, ORANGE, BLUE, GREEN, GREY = "red", "orange", "blue", "green", "#8e8e8e"
SEVERITY = {"critical": RED, "warning": ORANGE, "info": BLUE}
# What HEALTH answers. Unseen has a colour of its own: it is not health.
HEALTH = {"-1": ("unseen", GREY), "0": ("well", GREEN), "1": ("info", BLUE), "2": ("warning", ORANGE), "3": ("critical", RED)}  # fmt: skip  # noqa: E501 — a table

Steps = Sequence[tuple[float | None, str]]


def coloured(texts: Mapping[str, tuple[str, str]]) -> list[dashboard.ValueMapping]:
    """Return a mapping from each value to its text and colour."""
    options = {
        value: dashboard.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(texts.items())
    }
    return [dashboard.ValueMap(options=options)]


def steps(*given: tuple[float | None, str]) -> build.ThresholdsConfig:
    """Colours from a value upwards; the first has no value."""
    made = [dashboard.Threshold(value=value, color=color) for value, color in given]
    return build.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(made)


def stat(
    title: str, description: str, query: Query, given: Steps, *, unit: str = "short", width: int = 4
) -> build_stat.Panel:
    """Return a panel with the newest value of each column, in colour."""
    return (
        build_stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(Target(query))
        .unit(unit)
        .thresholds(steps(*given))
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(build_common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .height(4)
        .span(width)
    )


def series(
    title: str, description: str, query: Query, *, unit: str = "short", bars: bool = False, width: int = 12
) -> build_series.Panel:
    """Lines over time, or stacked bars."""
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
    *,
    links: Mapping[str, str] | None = None,
    height: int = 8,
    width: int = 12,
) -> build_table.Panel:
    """Rows as they come; a severity has its colour in whatever column. `links` (title: URL) hang on every cell.

    Colours and links are defaults of the whole table and not overrides of columns, because Grafana's published schema
    of a dashboard refuses the names and numbers that overrides hold.
    """
    made = [
        build.DashboardLink(text).type(dashboard.DashboardLinkType.LINK).url(url) for text, url in (links or {}).items()
    ]
    panel = (
        build_table.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(Target(query))
        .thresholds(steps((None, "text")))
        .mappings(coloured({name: (name, color) for name, color in SEVERITY.items()}))
        .show_header(True)
        .height(height)
        .span(width)
    )
    if made:
        panel.data_links(list(made))
    # The library has no word for this setting of all cells.
    panel.build().field_config.defaults.custom = {"cellOptions": {"type": "color-text"}}
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
        .mappings(coloured(HEALTH))
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS))
        .show_value(common.VisibilityMode.NEVER)
        .merge_values(True)
        .row_height(0.9)
        .height(10)
        .span(24)
    )
