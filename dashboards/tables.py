"""Builds the tables of the dashboards, and the matrix of places."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import table as build_table
from grafana_foundation_sdk.models import dashboard

from dashboards.clickhouse import SOURCE, Target
from dashboards.looks import ABSENT, HEALTHY, UNOBSERVED, absent, colored, fixed, steps
from dashboards.queries.query import Query

Limits = Sequence[tuple[float | None, str]]


@dataclass(frozen=True, slots=True)
class Column:
    """The look of one column of a table; `width` in pixels, None: an equal share of the remaining width."""

    title: str = ""
    width: int | None = None
    unit: str = ""
    colors: Mapping[str, str] | None = None
    """The colors of its values."""
    wrap: bool = False
    """Breaks lines; Grafana fits the height of a row to the last such column."""
    hidden: bool = False
    links: Mapping[str, str] | None = None
    """Title -> URL of the links of the cell."""
    gauge: float | None = None
    """Draws the value as a bar; the full bar is this value."""
    limits: Limits = ()
    """Colors of the value or its bar, each from a number upwards; the first number is None."""
    decimals: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a wrapped column with links, because Grafana cuts a cell with links to one line."""
        if self.wrap and self.links:
            raise ValueError(f"column {self.title}: a cell with links does not wrap")


def moment(title: str, links: Mapping[str, str] | None = None) -> Column:
    """Return a column of times, to the second; it is wider with links, which Grafana draws bolder."""
    return Column(title, 175 if links else 160, unit="time:YYYY-MM-DD HH:mm:ss", links=links)


def condition(links: Mapping[str, str]) -> Column:
    """Return a column of conditions, as wide as the longest condition."""
    return Column("Condition", 185, links=links)


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
    """Return a table with the query's rows in their order, or the text `empty` without rows."""
    panel = _panel(title, description, query, empty, height, width)
    for name in query.columns:
        panel.override_by_name(name, _properties(columns[name]))
    return panel


def note(title: str, description: str, query: Query) -> build_table.Panel:
    """Return one line: what a board shows, or what would fill it."""
    (column,) = query.columns
    panel = table(title, description, query, {column: Column("Note")}, empty="unknown", height=3, width=24)
    return panel.show_header(False)


def matrix(
    title: str, description: str, query: Query, *, empty: str, column: Column, links: Mapping[str, str],
    height: int = 8, width: int = 24,
) -> build_table.Panel:  # fmt: skip
    r"""Return a matrix: the query's first column gives the rows, the second the columns, the third the values.

    Grafana names the first column of the matrix `first\second`.
    """
    row, place, value = query.columns
    panel = _panel(title, description, query, empty, height, width)
    options = {"rowField": row, "columnField": place, "valueField": value, "emptyValue": "null"}
    panel.with_transformation(dashboard.DataTransformerConfig(id_val="groupingToMatrix", options=options))
    panel.override_by_name(
        f"{row}\\{place}",
        _properties(Column(row.capitalize(), 100, links=links)),
    )
    panel.override_by_regexp("^(rail|fabric|plane).*", _properties(column))
    return panel


def state_column(levels: Mapping[str, tuple[str, str]], links: Mapping[str, str] | None = None) -> list[Any]:
    """Return the overrides that draw a state as its text on its color."""
    mapping: list[Any] = [*colored(levels), absent(ABSENT, "transparent")]
    made: dict[str, Any] = {
        "custom.cellOptions": {"type": "color-background", "mode": "basic"}, "mappings": mapping,
        "color": fixed(UNOBSERVED).build(), "custom.align": "center", "custom.minWidth": 80,
    }  # fmt: skip
    if links is not None:
        made["links"] = _links(links)
    return [dashboard.DynamicConfigValue(id_val=name, value=value) for name, value in made.items()]


def state_matrix(
    title: str, description: str, query: Query, levels: Mapping[str, tuple[str, str]], *, empty: str,
    links: Mapping[str, str], height: int = 8, width: int = 24,
) -> build_table.Panel:  # fmt: skip
    """Return a matrix of states, readable from a distance."""
    panel = matrix(title, description, query, empty=empty, column=Column(), links=links, height=height, width=width)
    panel.override_by_regexp("^(rail|fabric|plane).*", state_column(levels, links))
    return panel


def _panel(title: str, description: str, query: Query, empty: str, height: int, width: int) -> build_table.Panel:
    return (
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


def _links(links: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"title": title, "url": url} for title, url in links.items()]


def _properties(column: Column) -> list[dashboard.DynamicConfigValue]:
    """Return the overrides of one column."""
    cell: dict[str, Any] = {"type": "auto", "wrapText": column.wrap}
    # Grafana would write the panel's text for no rows into every empty cell.
    made: dict[str, Any] = {"noValue": ABSENT}
    if column.title:
        made["displayName"] = column.title
    if column.width is not None:
        made["custom.width"] = column.width
    if column.unit:
        made["unit"] = column.unit
    if column.decimals is not None:
        made["decimals"] = column.decimals
    if column.colors is not None:
        cell = {"type": "color-text"}
        made["mappings"] = colored({value: (value.replace("_", " "), color) for value, color in column.colors.items()})
        made["color"] = fixed(UNOBSERVED).build()
    if column.limits:
        cell = {"type": "color-text"}
        made["thresholds"] = steps(*column.limits).build()
    if column.gauge is not None:
        cell = {"type": "gauge", "mode": "basic"}
        made |= {"min": 0, "max": column.gauge, "thresholds": steps(*(column.limits or ((None, HEALTHY),))).build()}
    if column.links is not None:
        made["links"] = _links(column.links)
    if column.hidden:
        made["custom.hidden"] = True
    made["custom.cellOptions"] = cell
    return [dashboard.DynamicConfigValue(id_val=name, value=value) for name, value in made.items()]
