"""Defines the labels of enums in tables: lower case, without the type's prefix, empty for unspecified members."""

from enum import IntEnum

from streams.wire.models import RowKind, Source

_PREFIXES: dict[type[IntEnum], str] = {Source: "SOURCE_", RowKind: "ROW_KIND_"}


def enum_label(member: IntEnum) -> str:
    """Return the label of a member.

    `SOURCE_GNMI` is `gnmi`, `ROW_KIND_PORT` is `port`, `LINK_FLAP` is `link_flap`; an unspecified member is empty.
    """
    if member == 0:
        return ""
    return member.name.removeprefix(_PREFIXES.get(type(member), "")).lower()


SOURCE_OF_LABEL = {enum_label(source): source for source in Source}
ROW_KIND_OF_LABEL = {enum_label(kind): kind for kind in RowKind}

# Tuples indexed by number, because an IntEnum's hash is a Python function and every message needs a lookup.
_SOURCES = tuple(enum_label(source) for source in sorted(Source))
_ROW_KINDS = tuple(enum_label(kind) for kind in sorted(RowKind))


def source_name(source: Source) -> str:
    """Return the source's label in tables."""
    return _SOURCES[source]


def row_kind_name(kind: RowKind) -> str:
    """Return the row kind's label in tables."""
    return _ROW_KINDS[kind]
