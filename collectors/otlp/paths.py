"""Finds the metric of a point whose name is a gNMI path, by the profiles and the bridge's rules. Pure.

gnmic joins the steps of a path by underscores and prefixes keys with their element; gnmireceiver writes
`openconfig.` and the steps, and `..._info` for a text. Both write a text as the attribute `value` of a point that is 1.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from collectors.bridge.series import series_kind
from collectors.bridge.tables import Kind
from collectors.otlp.tables import LONGEST_NAME, Place, Rule
from streams.wire.models import RowKind

_DOTTED, _INFO, _VALUE = "openconfig.", "_info", "value"
_PORTS = "interfaces_"
"""The begin of a path to which gnmic's `strip-leading-underscore` applies."""
_ORIGIN = re.compile(r"^[^:]*:(?=_)")
_MODULE = re.compile(r"openconfig_[a-z0-9_]{1,64}?:")
_MOST_NAMES = 4096


class PathRule:
    """The rule of one path, as TableRule is of one name."""

    row_kind = RowKind.ROW_KIND_PORT
    device: tuple[str, ...] = ()

    def __init__(self, field: str, *, is_gnmic: bool) -> None:
        self._field, self._is_gnmic = field, is_gnmic
        self.rule = Rule.model_construct(name=(field,))

    is_plain = False

    def place(self, attributes: Mapping[str, str]) -> Place | None:
        """Return the position of a point with these attributes, and its conversion; None if it is not collected."""
        names = tuple(sorted(attributes.keys() - {_VALUE}))
        found = series_kind("", "", names, is_gnmic=self._is_gnmic).signal(self._field, attributes)
        signal, row = found or (None, "")
        if signal is None or signal.kind is not Kind.VALUE or signal.metric is None:
            return None
        if not row or len(row) > LONGEST_NAME:
            return None
        return Place(row, signal.lane, signal, attributes.get(_VALUE))


@lru_cache(maxsize=_MOST_NAMES)
def path_rule(name: str) -> PathRule | None:
    """Return the rule of a name that is a path; None for another name."""
    if name.startswith(_DOTTED):
        return PathRule(f"/{name[len(_DOTTED) :].removesuffix(_INFO).replace('.', '/')}", is_gnmic=False)
    bare = _MODULE.sub("", _ORIGIN.sub("", name))
    if bare.startswith(("_", _PORTS)):
        return PathRule(bare.removeprefix("_"), is_gnmic=True)
    return None
