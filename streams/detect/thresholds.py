"""Defines the base of all thresholds: frozen, refusing unknown keys; and converts seconds to event time.

A threshold that sites set is a field, and so a setting. A threshold that no site needs to change is a ClassVar: a
constant, which a configuration cannot set.
"""

from collections.abc import Iterator
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]


class Thresholds(BaseModel):
    """A section of `[detect.…]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def values(self) -> dict[str, Any]:
        """Return all thresholds by name, settings and constants, in order of declaration."""
        return {name: _plain(getattr(self, name), kind) for name, kind in self._kinds()}

    @classmethod
    def _kinds(cls) -> Iterator[tuple[str, Any]]:
        for base in reversed(cls.__mro__):
            if base is not Thresholds and issubclass(base, Thresholds):
                for name, annotation in base.__annotations__.items():
                    field = cls.model_fields.get(name)
                    if field is None and not get_args(annotation):
                        raise TypeError(f"{base.__name__}.{name} has no type; write ClassVar[float]")
                    yield name, get_args(annotation)[0] if field is None else field.annotation


def _plain(value: Any, kind: Any) -> Any:
    if isinstance(value, Thresholds):
        return value.values()
    return float(value) if kind is float else value


def ns(seconds: float) -> int:
    """Return seconds as nanoseconds of event time."""
    return round(seconds * 1_000_000_000)
