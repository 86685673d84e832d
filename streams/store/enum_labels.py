"""How enums are spelled in tables: in lower case, without the type's own prefix, empty where unspecified."""

from enum import IntEnum

from streams.wire.models import RowKind, Source


def enum_label(member: IntEnum) -> str:
    """`SOURCE_GNMI` is `gnmi`, `ROW_KIND_PORT` is `port`, `LINK_FLAP` is `link_flap`, an unspecified one is empty."""
    if member == 0:
        return ""
    name = member.name
    for prefix in ("SOURCE_", "ROW_KIND_"):
        name = name.removeprefix(prefix)
    return name.lower()


# By number, not by dict: an IntEnum's hash is a Python function, and these are looked up for every message.
_SOURCES = tuple(enum_label(source) for source in sorted(Source))
_ROW_KINDS = tuple(enum_label(kind) for kind in sorted(RowKind))


def source_name(source: Source) -> str:
    """The source as tables have it."""
    return _SOURCES[source]


def row_kind_name(kind: RowKind) -> str:
    """The row kind as tables have it."""
    return _ROW_KINDS[kind]
