"""Finds the event of a message in the vendors' tables: data files of rules, each with its source and date. Pure.

A rule names the vendor's mnemonic (`UPDOWN` of `%LINK-3-UPDOWN`), or is for messages without one, and has a pattern
that matches the begin of the text. Its groups are `port` (for a BGP session the neighbor), `state`, `lane` and `queue`.
"""

import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collectors.syslog.lines import Line
from streams.wire.models import EventKind

_ANY = "*"
"""The state of a rule for all states that it does not list."""
_MOST_TEXT = 1024
"""Limit of the evaluated text; the longest of 4,690 lines of routers had 240 bytes."""
NO_PLACE = -1
"""The code of an event of a module or queue whose line names no lane or queue."""


def _kind(value: object) -> object:
    if not isinstance(value, str) or (value and value.upper() not in EventKind.__members__):
        raise ValueError("no kind of event")
    return EventKind[value.upper()] if value else None


Kind = Annotated[EventKind | None, BeforeValidator(_kind)]


class Rule(BaseModel):
    """One rule of a table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mnemonic: tuple[str, ...] = ()
    """Names or patterns (`IF_DOWN_*`); empty: messages without a mnemonic."""
    facility: str = ""
    """One part of the facility, such as LINK of `%PKT_INFRA-LINK-3-UPDOWN`; empty: any."""
    tag: str = ""
    """The program that writes the message; empty: any."""
    text: re.Pattern[str]
    event: Kind | dict[str, Kind] = None
    """The event, or the event of each state in lower case; empty: the message is known and has none."""
    family: Literal["link", "protocol"] = "link"
    """Devices report one transition in lines of both families."""


class Table(BaseModel):
    """One data file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(min_length=1)
    """The publications in which the messages were read."""
    date: date
    """The day on which they were compared with the source."""
    rule: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A message that a table knows; `kind` is None if it is no event."""

    kind: EventKind | None
    port: str = ""
    code: int = 0
    is_protocol: bool = False


_OF_PLACES = {
    EventKind.LOSS_OF_SIGNAL, EventKind.SIGNAL_RESTORED, EventKind.OPTICS_ALARM, EventKind.OPTICS_CLEARED,
    EventKind.PFC_STORM, EventKind.PFC_RESTORED,
}  # fmt: skip


@cache
def tables() -> tuple[Table, ...]:
    """Return all tables, in the order of their names."""
    folder = resources.files("collectors.syslog") / "tables"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return tuple(Table.model_validate(tomllib.loads(file.read_text("utf-8"))) for file in files)


@cache
def _rules() -> tuple[dict[str, list[Rule]], list[tuple[str, Rule]], list[Rule]]:
    """Return the rules by mnemonic, those with a pattern of mnemonics, and those of messages without one."""
    named: defaultdict[str, list[Rule]] = defaultdict(list)
    patterns: list[tuple[str, Rule]] = []
    plain: list[Rule] = []
    for rule in (rule for table in tables() for rule in table.rule):
        for name in rule.mnemonic:
            if _ANY in name:
                patterns.append((name, rule))
            else:
                named[name].append(rule)
        if not rule.mnemonic:
            plain.append(rule)
    return dict(named), patterns, plain


def classify(line: Line) -> Known | None:
    """Return what a table knows about a message; None if no table knows it."""
    named, patterns, plain = _rules()
    if line.mnemonic:
        rules = [*named.get(line.mnemonic, ()), *(rule for name, rule in patterns if fnmatchcase(line.mnemonic, name))]
        parts = line.facility.replace("/", "-").split("-")
        rules = [rule for rule in rules if not rule.facility or rule.facility in parts]
    else:
        rules = plain
    texts = [line.text[:_MOST_TEXT]]
    if line.tag and not line.mnemonic:
        texts.append(f"{line.tag}: {texts[0]}")  # a message without a tag may begin with a port
    for rule in rules:
        for text in texts if not rule.tag or rule.tag == line.tag else ():
            if found := rule.text.match(text):
                return _known(rule, found.groupdict())
    return None


def _known(rule: Rule, groups: dict[str, Any]) -> Known | None:
    kind = rule.event
    if isinstance(kind, dict):
        state = (groups.get("state") or "").strip().lower()
        if state not in kind and _ANY not in kind:
            return None
        kind = kind.get(state, kind.get(_ANY))
    place = groups.get("lane") or groups.get("queue")
    code = int(place) if place else NO_PLACE if kind in _OF_PLACES else 0
    return Known(kind, groups.get("port") or "", code, rule.family == "protocol")
