"""Maps the paths of a device to leaves of the catalogue: the profiles' tables, prepared for lookup. Pure.

Only a complete path matches: a subinterface's state is not its port's state.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import NamedTuple

from collectors.core.columns import unquoted
from collectors.gnmi import values
from collectors.gnmi.paths import Elem, Elems, from_text
from collectors.gnmi.profile import LeafMapping, Profile, profiles
from streams.fabric.catalogue import BY_NAME, Metric
from streams.wire.models import NO_INDEX

Read = Callable[[values.Scalar], float | str | None]
_READERS: dict[str, Read] = {
    "number": values.number, "oper_up": values.oper_up, "admin_up": values.admin_up, "port_speed": values.port_speed,
    "session_up": values.session_up, "unix_ns": values.unix_ns, "text": values.text, "flag": values.flag,
    "stormed": values.stormed,
}  # fmt: skip


class Kind(Enum):
    """The ways to process a leaf's value."""

    COUNTER = "counter"
    READING = "reading"  # a gauge that is sampled like a counter
    STATE = "state"  # a gauge that the device reports when it changes
    BOOT_TIME = "boot-time"
    FACT = "fact"
    NAME = "port-name"  # the key of a port whose path arrived without it
    MODULE = "module"  # the component that the port holds


_KINDS = {"boot-time": Kind.BOOT_TIME, "port-name": Kind.NAME, "module": Kind.MODULE}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf: its kind, its row, and its reader; a leaf without a reader is absent.

    `row_in` is the step and the key that name the row.
    """

    kind: Kind
    row: str = ""
    metric: Metric | None = None
    index: int = NO_INDEX
    read: Read = values.number
    fact: str = ""
    rank: int = 9
    secondary: bool = False
    row_in: tuple[int, str] | None = None
    scale: float = 1.0
    """The factor of a counter; a gauge's reader applies its own factor."""


class _Position(NamedTuple):
    """The position of a placeholder: a step and its key; no key if the step's name has the placeholder."""

    step: int
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One line of a table: its pattern and its mapping. Names are spelled with hyphens (see `spelled`)."""

    names: tuple[re.Pattern[str] | str, ...]
    keys: tuple[tuple[int, str], ...]
    """The steps and the keys of their lists, in the order of the path."""
    positions: dict[str, _Position]
    literals: tuple[tuple[int, str, str], ...]
    """Steps, keys, and the value that each key must have."""
    mapping: LeafMapping

    def placeholders(self, names: Sequence[str]) -> dict[str, str] | None:
        """Return the placeholders in the names of a path of the same length; None if it does not match."""
        found: dict[str, str] = {}
        for pattern, name in zip(self.names, names, strict=True):
            if isinstance(pattern, str):
                if pattern != spelled(name):
                    return None
                continue
            matched = pattern.fullmatch(name)
            if matched is None:
                return None
            found |= matched.groupdict()
        return found


_PLACEHOLDER = re.compile(r"\{(row|lane|other)\}")
_DIGITS = re.compile(r"\d{1,4}$")
_GROUPS = {"row": r"(?P<row>[^*]+)", "lane": r"(?P<lane>\d+)", "other": r"(?P<other>[^*]+)"}
_MOST_LANES = 64


def spelled(name: str) -> str:
    """Return a name with hyphens for underscores: Telegraf and a few devices write underscores for both."""
    return name.replace("_", "-")


def _name_pattern(name: str) -> re.Pattern[str] | str:
    if "{" not in name and "*" not in name:
        return spelled(name)
    parts = re.split(r"(\{\w+\}|\*)", name)
    return re.compile("".join(".*" if part == "*" else _GROUPS.get(part[1:-1]) or _literal(part) for part in parts))


def _literal(text: str) -> str:
    return "[-_]".join(re.escape(part) for part in re.split("[-_]", text))


class PathMapping:
    """The leaves of some profiles; if two profiles have the same path, the first profile is used."""

    def __init__(self, tables: Iterable[Profile]) -> None:
        self._exact: dict[tuple[str, ...], Rule] = {}
        self._open: defaultdict[int, list[Rule]] = defaultdict(list)
        self.rules: list[Rule] = []
        self._keys: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for profile in tables:
            for section in profile.section:
                for below in section.below:
                    for path, leaf in section.leaves.items():
                        mapping = LeafMapping(metric=leaf) if isinstance(leaf, str) else leaf
                        self._add(from_text(f"{below}/{path}"), mapping)

    def _add(self, elems: Elems, mapping: LeafMapping) -> None:
        positions: dict[str, _Position] = {}
        literals: list[tuple[int, str, str]] = []
        keys: list[tuple[int, str]] = []
        for step, elem in enumerate(elems):
            for name in _PLACEHOLDER.findall(elem.name):
                positions[name] = _Position(step, "")
            for key, value in elem.keys:
                self._keys[elem.name][key] = None
                keys.append((step, key))
                if not _PLACEHOLDER.search(value):
                    literals.append((step, key, value))
                for name in _PLACEHOLDER.findall(value):
                    positions[name] = _Position(step, key)
        names = tuple(_name_pattern(elem.name) for elem in elems)
        rule = Rule(names, tuple(keys), positions, tuple(literals), mapping)
        self.rules.append(rule)
        exact = tuple(name for name in names if isinstance(name, str))
        if len(exact) == len(names):
            self._exact.setdefault(exact, rule)
        else:
            self._open[len(elems)].append(rule)

    def leaf(self, elems: Elems) -> Leaf | None:
        """Return the leaf of a path, None if it has none. `row` is empty if the device omitted the key."""
        for rule, found in self.named([elem.name for elem in elems]):
            if all(elems[step].key(key) == value for step, key, value in rule.literals):
                keys = {name: elems[step].key(key) or "" for name, (step, key) in rule.positions.items() if key}
                return leaf_of(rule, found | keys)
        return None

    def named(self, names: Sequence[str]) -> Iterator[tuple[Rule, dict[str, str]]]:
        """Yield the lines whose names match a path, with the placeholders in the names."""
        exact = self._exact.get(tuple([spelled(name) for name in names]))
        for rule in self._open.get(len(names), ()) if exact is None else (exact,):
            found = rule.placeholders(names)
            if found is not None:
                yield rule, found

    def keys_of(self, name: str) -> Iterable[str]:
        """Return the keys that identify the entries of a list."""
        return self._keys.get(name, ())


def leaf_of(rule: Rule, found: dict[str, str]) -> Leaf | None:
    """Return the leaf of a line with these placeholders; None if it is not collected (a queue without a number)."""
    mapping, row = rule.mapping, unquoted(found.get("row", ""))
    position = rule.positions.get("row")
    row_in = (position.step, position.key) if position is not None and position.key else None
    if mapping.fact:
        subject = f"{row}\0{found['other']}" if "other" in found else row
        return Leaf(Kind.FACT, subject, read=_READERS[mapping.read or "text"], fact=mapping.fact)
    if mapping.is_:
        read = _READERS[mapping.read or ("unix_ns" if mapping.is_ == "boot-time" else "text")]
        return Leaf(_KINDS[mapping.is_], row, read=read, row_in=row_in)
    metric = BY_NAME[mapping.metric]
    index = NO_INDEX
    if metric.index is not None and "lane" in found:  # without a placeholder, the value covers all lanes or priorities
        digits = _DIGITS.search(found["lane"])
        index = int(digits[0]) - mapping.lanes_from if digits else NO_INDEX
        if not 0 <= index < _MOST_LANES:
            return None
    is_counter = metric.counter
    read = _READERS[mapping.read or "number"]
    kind = Kind.COUNTER if is_counter else Kind.STATE if mapping.state else Kind.READING
    return Leaf(
        kind, row, metric, index, read if is_counter else _scaled(read, mapping.scale), "", mapping.rank,
        mapping.secondary, row_in, mapping.scale if is_counter else 1.0,
    )  # fmt: skip


def _scaled(read: Read, scale: float) -> Read:
    if scale == 1:
        return read

    def scaled(value: values.Scalar) -> float | None:
        found = read(value)
        return found * scale if isinstance(found, int | float) else None

    return scaled


@cache
def path_mapping(first: tuple[str, ...] = ()) -> PathMapping:
    """Return the leaves of all profiles; for a path in several profiles, a profile named here is preferred."""
    known = profiles()
    return PathMapping([*(known[name] for name in first), *(p for name, p in known.items() if name not in first)])


def names_of(elems: Iterable[Elem]) -> tuple[str, ...]:
    """Return the names of the steps."""
    return tuple(elem.name for elem in elems)
