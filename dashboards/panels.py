"""Builds the panels of the dashboards, with one function per kind; tables.py has the tables, looks.py the colors."""

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import nodegraph as build_graph
from grafana_foundation_sdk.builders import stat as build_stat
from grafana_foundation_sdk.builders import statetimeline as build_timeline
from grafana_foundation_sdk.builders import timeseries as build_series
from grafana_foundation_sdk.models import common, dashboard

from dashboards.clickhouse import SOURCE, Target
from dashboards.looks import ARCS, LEVELS, UNKNOWN, UNOBSERVED, absent, colored, fixed, steps
from dashboards.queries.query import Query

Steps = Sequence[tuple[float | None, str]]
_JOINED_MS = 120_000
"""The longest gap that a line crosses: SNMP is read every 30 s, so that a port has no value in most buckets."""


def stat(
    title: str, description: str, query: Query, given: Steps, *, unit: str = "short", width: int = 4, height: int = 4,
    titles: Mapping[str, str] | None = None, links: Mapping[str, str] | None = None,
) -> build_stat.Panel:  # fmt: skip
    """Return a panel with the newest value of each column, in the color of `given`; grey without a value.

    `titles` are readable names of the query's columns.
    """
    panel = (
        build_stat.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(Target(query))
        .unit(unit)
        .no_value(UNKNOWN)
        .mappings([absent(UNKNOWN)])
        .thresholds(steps((None, UNOBSERVED), *given))
        .color_mode(common.BigValueColorMode.BACKGROUND_SOLID)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(build_common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .height(height)
        .span(width)
    )
    if links:
        panel.data_links([_link(text, url) for text, url in links.items()])
    for name, text in (titles or {}).items():
        panel.override_by_name(name, [dashboard.DynamicConfigValue(id_val="displayName", value=text)])
    return panel


def verdict(
    title: str, description: str, query: Query, levels: Mapping[str, tuple[str, str]], *, width: int = 6,
    height: int = 4,
) -> build_stat.Panel:  # fmt: skip
    """Return a panel with one state, drawn as its text on its color."""
    panel = stat(title, description, query, (), width=width, height=height)
    return panel.mappings([*colored(levels), absent(UNKNOWN)]).color_scheme(fixed(UNOBSERVED))


def tiles(
    title: str, description: str, query: Query, *, empty: str, width: int = 6, height: int = 4,
    links: Mapping[str, str] | None = None,
) -> build_stat.Panel:  # fmt: skip
    """Return a panel with a tile for each row; the query has the tile's name and level."""
    panel = (
        verdict(title, description, query, LEVELS, width=width, height=height)
        .reduce_options(build_common.ReduceDataOptions().calcs([]).values(True).limit(100).fields(""))
        .text_mode(common.BigValueTextMode.VALUE_AND_NAME)
        .mappings([*colored(LEVELS), absent(empty)])  # without rows Grafana shows the text of the mapping
        # With automatic sizes, Grafana 11.6 cut the state of the second tile.
        .text(build_common.VizTextDisplayOptions().title_size(20).value_size(32))
        .no_value(empty)
    )
    if links:
        panel.data_links([_link(text, url) for text, url in links.items()])
    return panel


def series(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "short",
    empty: str = "Nothing was read in this time range.",
    bars: bool = False,
    logarithmic: bool = False,
    limits: Steps = (),
    dashed: str = "",
    colors: Mapping[str, str] | None = None,
    least: float | None = 0,
    width: int = 12,
    height: int = 8,
) -> build_series.Panel:
    """Return a panel with lines over time or stacked bars; the second column of each query is the name of the series.

    `limits` are dashed lines. Series whose name matches `dashed`, such as limits and forecasts, are dashed too.
    `colors` maps names of series to colors; Grafana gives every other series a different color.
    """
    panel = (
        build_series.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        # A bucket below ten seconds may have no reading, and the gap would look like zero.
        .interval("10s")
        .unit(unit)
        .no_value(empty)
        .display_name("${__field.labels." + queries[0].columns[1] + "}")
        .color_scheme(build.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC))
        .line_width(2)
        .show_points(common.VisibilityMode.AUTO)
        .span_nulls(_JOINED_MS)
        .legend(build_common.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST).show_legend(True))
        .tooltip(build_common.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        .height(height)
        .span(width)
    )
    for number, query in enumerate(queries):
        panel.with_target(Target(query, chr(ord("A") + number)))
    if least is not None and not logarithmic:
        panel.min(least)
    if logarithmic:
        kind = build_common.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(10)
        panel.scale_distribution(kind)
    if limits:
        panel.thresholds(steps((None, "transparent"), *limits))
        panel.thresholds_style(build_common.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED))
    if dashed:
        line = {"fill": "dash", "dash": [10, 10]}
        panel.override_by_regexp(dashed, [dashboard.DynamicConfigValue(id_val="custom.lineStyle", value=line)])
    for name, color in (colors or {}).items():
        panel.override_by_name(name, [dashboard.DynamicConfigValue(id_val="color", value=fixed(color).build())])
    if bars:
        panel.draw_style(common.GraphDrawStyle.BARS).fill_opacity(80)
        panel.stacking(build_common.StackingConfig().mode(common.StackingMode.NORMAL))
    return panel


def timeline(
    title: str,
    description: str,
    query: Query,
    *,
    empty: str,
    levels: Mapping[str, tuple[str, str]] = LEVELS,
    height: int = 10,
    width: int = 24,
) -> build_timeline.Panel:
    """Return a panel with the state of each place over time."""
    return (
        build_timeline.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(Target(query))
        .interval("10s")
        .max_data_points(120)  # each is a cell of each place
        .mappings([*colored(levels), absent("unobserved")])
        .color_scheme(fixed(UNOBSERVED))
        .display_name("${__field.labels." + query.columns[1] + "}")
        .no_value(empty)
        .show_value(common.VisibilityMode.NEVER)
        .legend(build_common.VizLegendOptions().show_legend(True))
        .merge_values(True)
        .row_height(0.9)
        .height(height)
        .span(width)
    )


def graph(
    title: str, description: str, nodes: Query, edges: Query, links: Mapping[str, Mapping[str, str]], *,
    height: int = 12, width: int = 12,
) -> build_graph.Panel:  # fmt: skip
    """Return a graph of nodes and edges; each query must return a row, or Grafana shows an error.

    `links` are those of a field: `title` of nodes, another one of edges.
    """
    panel = (
        build_graph.Panel()
        .title(title)
        .description(description)
        .datasource(SOURCE)
        .with_target(Target(nodes, "A"))
        .with_target(Target(edges, "B"))
        .nodes(
            build_graph.NodeOptions().arcs(
                [build_graph.ArcOption().field(arc).color(LEVELS[level][1]) for level, arc in ARCS.items()]
            )
        )
        .height(height)
        .span(width)
    )
    # Grafana has no display names of this kind of panel; its legend shows those of a transformation.
    titles = {
        "mainstat": "state",
        "secondarystat": "open findings",
        **{ARCS[n]: text for n, (text, _) in LEVELS.items()},
    }
    renamed = dashboard.DataTransformerConfig(id_val="organize", options={"renameByName": titles})
    panel.with_transformation(renamed)
    for field, own in links.items():
        given = [{"title": text, "url": url} for text, url in own.items()]
        panel.override_by_name(field, [dashboard.DynamicConfigValue(id_val="links", value=given)])
    return panel


def _link(title: str, url: str) -> build.DashboardLink:
    return build.DashboardLink(title).url(url).type(dashboard.DashboardLinkType.LINK)
