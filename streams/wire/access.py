"""The access of a part of railsight to Kafka: the topics that it reads and writes, and its consumer groups.

Each room declares it beside the code that does it; the ACLs of streams/runtime/acl.py are derived from it.
"""

from dataclasses import dataclass
from typing import TypeVar

from streams.wire.topics import Topic

_Item = TypeVar("_Item")

ADMIN = "admin"
"""Makes topics, users and ACLs: `railsight topics`, `railsight acl`."""
OPERATOR = "operator"
"""A person: publishes the inventory, jobs, controls and lemons, and reads the results."""
READER = "reader"
"""A person or program that reads the results; its consumer groups begin with `reader.`."""
COLLECTOR, AUTOMATION = "collector", "automation"
PROBE = "probe"
"""The prober of a host, which other collectors' topics are closed to."""
PROCESS, PERSIST, NOTIFY, TICKETS, LOCALITY = "process", "persist", "notify", "tickets", "locality"
"""`process` is for a process that runs all stages; a stage alone has its own name."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access of one part; `group_prefixes` are of groups whose names have a part that users choose."""

    reads: tuple[Topic, ...] = ()
    writes: tuple[Topic, ...] = ()
    groups: tuple[str, ...] = ()
    group_prefixes: tuple[str, ...] = ()
    foreign_reads: tuple[str, ...] = ()
    """Topics that are not railsight's."""
    checks_topics: bool = False
    """Reads the configuration of all topics of the registry, to refuse a wrong one."""
    administers: bool = False
    """Creates topics, users and ACLs; reads and writes no records."""

    def __or__(self, other: "Access") -> "Access":
        """Return the access of a part that does both."""
        return Access(
            _merged(self.reads, other.reads),
            _merged(self.writes, other.writes),
            _merged(self.groups, other.groups),
            _merged(self.group_prefixes, other.group_prefixes),
            _merged(self.foreign_reads, other.foreign_reads),
            self.checks_topics or other.checks_topics,
            self.administers or other.administers,
        )


def _merged(first: tuple[_Item, ...], second: tuple[_Item, ...]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys((*first, *second)))
