"""Finds the metric of a point in the tables: data files of rules, each with its source and date. Pure.

A rule names the sender's metric and ours. The catalogue decides if it is a counter: senders export counters as gauges.
A point's port, lane, priority or queue are values of its attributes.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from functools import cache
from importlib import resources
from typing import Annotated, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collectors.bridge.tables import Signal
from collectors.host.messages import pci_address
from streams.fabric.catalogue import BY_NAME, Metric
from streams.wire.models import NO_INDEX, RowKind

LONGEST_NAME = 256
NEIGHBORS = "nvswitch_lldp_neighbor_info"
"""The metric whose points are 1 and have the LLDP neighbors of the ports in their attributes."""
_MOST_LANES = 256
_OBJECT = re.compile(r"^(.+)[|:](\d{1,3})$")
"""The name of an object that ends with its number: `Ethernet0|3`, `Ethernet0:3`."""


def _metric(value: object) -> object:
    if value not in BY_NAME:
        raise ValueError("no metric of the catalogue")
    return BY_NAME[str(value)]


def _texts(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]


class Rule(BaseModel):
    """One rule of a table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Texts
    """The sender's names of the metric."""
    metric: Annotated[Metric, BeforeValidator(_metric)]
    row: Texts = ()
    """The attributes that name the port, best first; empty: those of the table."""
    lane: str = ""
    """The attribute with the number of the lane, priority or queue; that of the port if its name ends with it."""
    first: int = 0
    """The number of the first lane."""
    where: dict[str, Texts] = Field(default_factory=dict)
    """The values that attributes must have."""
    factor: float = 1.0
    """Converts the sender's unit to the catalogue's."""
    unit: str = ""
    """The sender's metric whose value is the unit, such as the size of a buffer's cell in bytes."""
    states: dict[str, float] = Field(default_factory=dict)
    """Our value of each number that is a state; other numbers are absent."""
    zero_below: float = 0.0
    """A smaller value is 0."""
    parts: bool = False
    """True if several series of a port and lane add up to the metric."""
    prefix: str = ""
    """The begin of a port's name that the attribute leaves out."""

    @property
    def is_plain(self) -> bool:
        """True if a point's value is the metric's value."""
        return self.factor == 1.0 and not (self.unit or self.states or self.zero_below or self.parts)


class Table(BaseModel):
    """One data file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(min_length=1)
    """The publications in which the names were read."""
    date: date
    """The day on which they were compared with the source."""
    row: Texts
    """The attributes that name the port, best first."""
    gpu: bool = False
    """True if the rows are GPUs."""
    device: Texts = ()
    """The attributes of a point that name its device, where its resource names the exporter."""
    rule: tuple[Rule, ...]


class Place(NamedTuple):
    """The position of a point's value: row and lane; the signal and the text of a value that is of a path."""

    row: str
    lane: int
    signal: Signal | None = None
    text: str | None = None


class TableRule(NamedTuple):
    """A rule, and what it has from its table."""

    rule: Rule
    row: tuple[str, ...]
    row_kind: RowKind
    device: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """True if a point's value is the metric's value, and its series is of the sender's device."""
        return self.rule.is_plain and not self.device

    def place(self, attributes: Mapping[str, str]) -> Place | None:
        """Return the position of a point with these attributes; None if the rule is not for it."""
        if any(attributes.get(name) not in values for name, values in self.rule.where.items()):
            return None
        row = next((attributes[name] for name in self.row if attributes.get(name)), "")
        text = attributes.get(self.rule.lane, "")
        if self.rule.lane in self.row:
            row, text = (_OBJECT.sub(r"\1", row), _OBJECT.sub(r"\2", row)) if _OBJECT.match(row) else ("", "")
        if row and self.row_kind is RowKind.ROW_KIND_GPU:
            row = pci_address(row)
        if not row or len(row) > LONGEST_NAME:
            return None
        row = self.rule.prefix + row
        if not self.rule.lane:
            return Place(row, NO_INDEX)
        if not (text.isascii() and text.isdecimal() and len(text) < 4):
            return None
        lane = int(text) - self.rule.first
        return Place(row, lane) if 0 <= lane < _MOST_LANES else None


@cache
def tables() -> tuple[Table, ...]:
    """Return all tables, in the order of their names."""
    folder = resources.files("collectors.otlp") / "tables"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return tuple(Table.model_validate(tomllib.loads(file.read_text("utf-8"))) for file in files)


@cache
def rules() -> Mapping[str, tuple[TableRule, ...]]:
    """Return the rules by the sender's name of the metric."""
    found: defaultdict[str, list[TableRule]] = defaultdict(list)
    for table in tables():
        kind = RowKind.ROW_KIND_GPU if table.gpu else RowKind.ROW_KIND_PORT
        for rule in table.rule:
            for name in rule.name:
                found[name].append(TableRule(rule, rule.row or table.row, kind, table.device))
    return {name: tuple(of_name) for name, of_name in found.items()}


@cache
def units() -> frozenset[str]:
    """Return the sender's metrics whose values are units of others."""
    return frozenset(rule.unit for table in tables() for rule in table.rule if rule.unit)
