"""The settings that every collector has: the common keys of `[collect.<name>]`."""

from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collectors.core.affinity import Cpu
from collectors.core.buffer_limits import PublisherParams
from collectors.core.status_schedule import EVERY_S
from streams.instrument.validation_text import refusal
from streams.wire.errors import Misconfigured


class CollectorParams(BaseModel):
    """The base of every collector's Params; frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status_every_s: float = Field(default=EVERY_S, ge=0.5)
    """The interval of statuses of a target whose samples arrive; otherwise one is sent at each cadence."""
    publisher: PublisherParams = PublisherParams()
    """The buffer between the collector and Kafka."""
    cpu: Cpu | None = None
    """The CPU that the process is pinned to: its number, or `one` for any permitted one; not pinned if unset."""
    supports_spool: ClassVar[bool] = True
    """True if a reading cannot be repeated later, so that a spool is worth its disk space."""

    def files(self) -> tuple[Path, ...]:
        """Return the files that these settings name and that are reloaded when they change."""
        return ()


def without_secrets(values: object, names: tuple[str, ...]) -> object:
    """Return the fields of a target; raise ValueError for a secret: lists of targets are committed."""
    for name in names:
        if isinstance(values, dict) and name in values:
            raise ValueError(f"a secret must not be in a list of targets: set {name}_file to the path of its file")
    return values


class TargetParams(CollectorParams):
    """The base of the Params of a collector with many targets."""

    share_group: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    """Processes of one group, each configured with all targets, divide them; without it this one reads all of them."""
    share_session_s: float = Field(default=10.0, ge=6, le=300)
    """The others take over a member's targets after so long without it. Brokers accept no less than 6 by default."""

    def with_overrides(self, target: BaseModel, name: str, *groups: frozenset[str]) -> Self:
        """Return the settings of one target: those that it sets itself replace those of the collector.

        A target that sets one of a group of settings, such as those of a login, inherits none of that group.
        Raises Misconfigured, without a value, which may be secret.
        """
        given: dict[str, Any] = {
            field: getattr(target, field) for field in target.model_fields_set & type(self).model_fields.keys()
        }
        if not given:
            return self
        replaced = given.keys() | {field for group in groups if group & given.keys() for field in group}
        inherited = {field: getattr(self, field) for field in self.model_fields_set - replaced}
        try:
            return type(self).model_validate(inherited | given)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise Misconfigured(f"{name}: {f'{field} ' if field else ''}{refusal(first)}") from error
