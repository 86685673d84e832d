"""Finds the metric of a point whose name is a gNMI path, by the profiles and the bridge's rules. Pure.

gnmic joins the steps of a path by underscores and prefixes keys with their element; gnmireceiver writes
`openconfig.` and the steps, and a text as `..._info` with the attribute `value`.
"""

from collections.abc import Mapping
from functools import lru_cache

from collectors.bridge.series import series_kind
from collectors.bridge.tables import Kind
from collectors.otlp.tables import LONGEST_NAME, Place, Rule
from streams.wire.models import RowKind

_DOTTED, _INFO, _VALUE = "openconfig.", "_info", "value"
_MOST_NAMES = 4096


class PathRule:
    """The rule of one path, as TableRule is of one name."""

    row_kind = RowKind.ROW_KIND_PORT
    device: tuple[str, ...] = ()

    def __init__(self, field: str, *, is_text: bool, is_gnmic: bool) -> None:
        self._field, self._is_text, self._is_gnmic = field, is_text, is_gnmic
        self.rule = Rule.model_construct(name=(field,))

    is_plain = False

    def place(self, attributes: Mapping[str, str]) -> Place | None:
        """Return the position of a point with these attributes, and its conversion; None if it is not collected."""
        names = tuple(sorted(attributes.keys() - {_VALUE} if self._is_text else attributes.keys()))
        found = series_kind("", "", names, is_gnmic=self._is_gnmic).signal(self._field, attributes)
        signal, row = found or (None, "")
        if signal is None or signal.kind is not Kind.VALUE or signal.metric is None:
            return None
        if not row or len(row) > LONGEST_NAME:
            return None
        text = attributes.get(_VALUE, "") if self._is_text else None
        return Place(row, signal.lane, signal, text)


@lru_cache(maxsize=_MOST_NAMES)
def path_rule(name: str) -> PathRule | None:
    """Return the rule of a name that is a path; None for another name."""
    if name.startswith(_DOTTED):
        is_text = name.endswith(_INFO)
        steps = name[len(_DOTTED) :].removesuffix(_INFO if is_text else "")
        return PathRule(f"/{steps.replace('.', '/')}", is_text=is_text, is_gnmic=False)
    if name.startswith("_"):
        return PathRule(name[1:], is_text=False, is_gnmic=True)
    return None
