"""Fakes of what the guards read: controls, and states of links with their observations."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streams.decide.link_states import CONTRADICTORY, ONE_SIDED, Block
from streams.wire.models import Control, ControlKind, Subject


@dataclass
class FakeControls:
    """Controls by the ids of their targets; read to their end unless set otherwise."""

    loaded: bool = True
    is_stopped: bool = False
    in_maintenance: set[str] = field(default_factory=set)
    excluded: set[str] = field(default_factory=set)

    def kill_switch(self, now_ns: int) -> Control | None:
        return Control("stop", ControlKind.KILL_SWITCH) if self.is_stopped or not self.loaded else None

    def maintenance(self, target: Subject, now_ns: int) -> Control | None:
        return Control("work", ControlKind.MAINTENANCE, target.id) if target.id in self.in_maintenance else None

    def exclusion(self, target: Subject, now_ns: int) -> Control | None:
        return Control("not", ControlKind.EXCLUDE, target.id) if target.id in self.excluded else None


@dataclass
class FakeLinkStates:
    """All links carry, and all devices were observed at one time, except those that are named."""

    observed_at_ns: int = 0
    not_carrying: set[str] = field(default_factory=set)
    """Links without an observation."""
    down: set[str] = field(default_factory=set)
    unobserved: set[str] = field(default_factory=set)
    one_sided: set[str] = field(default_factory=set)
    contradicted: set[str] = field(default_factory=set)

    @property
    def blocked(self) -> Mapping[str, Block]:
        return dict.fromkeys(self.not_carrying, Block.NOT_OBSERVED) | dict.fromkeys(self.down, Block.DOWN)

    def evidence_gap(self, link_id: str) -> tuple[str, str]:
        if link_id in self.contradicted:
            return CONTRADICTORY, "port a-t0-0-0/u0"
        return (ONE_SIDED if link_id in self.one_sided else "", "")

    def observed_ns(self, device: str) -> int | None:
        return None if device in self.unobserved else self.observed_at_ns
