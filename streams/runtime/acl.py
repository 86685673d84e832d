"""Derives the ACLs of a cluster from the access of each part, and compares them with the brokers' ACLs.

Each part of railsight has its own principal. The access of stages, sink, notifier and collectors is declared beside
their code; the access of people and external programs is declared here. This module has no I/O; access_admin.py
connects to the brokers.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from streams.config.kafka import USER_PREFIX, KafkaSettings
from streams.config.settings import Settings
from streams.locality.params import ACCESS as LOCALITY_ACCESS
from streams.notify import log_export
from streams.notify import service as notifier
from streams.notify.tickets import service as ticket_desk
from streams.runtime.bindings import BINDINGS
from streams.store.persist.persisted_topics import access as persist_access
from streams.wire import topics
from streams.wire.topics import (
    ADMIN,
    AUTOMATION,
    COLLECTOR,
    LOCALITY,
    NOTIFY,
    OPERATOR,
    PERSIST,
    PROBE,
    PROCESS,
    READER,
    TICKETS,
    Access,
)

_TOPIC_PREFIX = "railsight."
_CLUSTER = "kafka-cluster"
"""The only name of the resource CLUSTER (Kafka's documentation of authorization)."""


EVERYBODY = "User:*"


class Resource(IntEnum):
    """Kafka's resource types."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """The pattern type of an ACL's name."""

    ANY = 1
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """Kafka's operations."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(IntEnum):
    """The effect of an ACL."""

    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One permission of one principal, from any host."""

    principal: str
    resource: Resource
    name: str
    operation: Operation
    pattern: Pattern = Pattern.LITERAL
    permission: Permission = Permission.ALLOW
    host: str = "*"

    def __str__(self) -> str:
        words = [
            self.principal, self.operation.name, self.resource.name.lower(),
            self.name + ("*" if self.pattern is Pattern.PREFIXED else ""),
        ]  # fmt: skip
        denied = ["DENY"] if self.permission is Permission.DENY else []
        return " ".join([*denied, *words, *([] if self.host == "*" else [f"from {self.host}"])])


def derive(accesses: Mapping[str, Access], principals: Mapping[str, str]) -> list[Acl]:
    """Return all ACLs that the parts need, part by part."""
    return [acl for part, access in accesses.items() for acl in _of_part(principals[part], access)]


def _of_part(principal: str, access: Access) -> Iterator[Acl]:
    for topic in access.reads:
        yield Acl(principal, Resource.TOPIC, topic.name, Operation.READ)
    for name in access.foreign_reads:
        yield Acl(principal, Resource.TOPIC, name, Operation.READ)
    for topic in access.writes:
        yield Acl(principal, Resource.TOPIC, topic.name, Operation.WRITE)
    for group in access.groups:
        yield Acl(principal, Resource.GROUP, group, Operation.READ)
    for prefix in access.group_prefixes:
        yield Acl(principal, Resource.GROUP, prefix, Operation.READ, Pattern.PREFIXED)
    for prefix in access.transactions:
        yield Acl(principal, Resource.TRANSACTIONAL_ID, prefix, Operation.WRITE, Pattern.PREFIXED)
    if access.checks_topics:
        for operation in (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS):
            yield Acl(principal, Resource.TOPIC, _TOPIC_PREFIX, operation, Pattern.PREFIXED)
    if access.administers:
        for operation in (Operation.CREATE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS):
            yield Acl(principal, Resource.TOPIC, _TOPIC_PREFIX, operation, Pattern.PREFIXED)
        yield Acl(principal, Resource.GROUP, "*", Operation.DESCRIBE)
        cluster = (Operation.ALTER, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
        for operation in cluster:  # of ACLs, users and quotas
            yield Acl(principal, Resource.CLUSTER, _CLUSTER, operation)


PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
_MIB = 1 << 20
QUOTAS = {
    **dict.fromkeys((COLLECTOR, "bridge", PROBE), (PRODUCER, 32 * _MIB)),
    **dict.fromkeys(("jobs", AUTOMATION, OPERATOR), (PRODUCER, 4 * _MIB)),
    READER: (CONSUMER, 16 * _MIB),
}
"""Part -> the most bytes per second of its user at one broker, so that a stolen login does not fill the brokers.

All collectors of the largest fabric send 4.9 MB/s compressed (streams/wire/topics.py); six times that empties the
spools after an outage. Commands and answers are few (choice).
"""


@dataclass(frozen=True, slots=True, order=True)
class Quota:
    """The most bytes per second that one user produces or consumes at each broker."""

    user: str
    name: str
    bytes_per_s: int

    def __str__(self) -> str:
        return f"User:{self.user} {self.name} {self.bytes_per_s}"


def derive_quotas(principals: Mapping[str, str]) -> list[Quota]:
    """Return the quotas of these parts' principals."""
    return [
        Quota(principal.removeprefix("User:"), *QUOTAS[part])
        for part, principal in principals.items()
        if part in QUOTAS
    ]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between the needed ACLs and the brokers' ACLs."""

    missing: tuple[Acl, ...]
    too_wide: tuple[Acl, ...]
    """ACLs of the parts' principals or of everybody that no part needs."""
    denied: tuple[Acl, ...]
    """ACLs that deny an operation that a part needs."""

    def __bool__(self) -> bool:
        """Return whether there is a difference."""
        return bool(self.missing or self.too_wide or self.denied)


def compare(needed: Iterable[Acl], present: Iterable[Acl]) -> Comparison:
    """Compare ACLs; an ACL that covers more than a needed one is too wide, and the needed one is then not missing."""
    wanted, found = list(needed), list(present)
    principals = {acl.principal for acl in wanted} | {EVERYBODY}
    own = [acl for acl in found if acl.principal in principals]
    allowed = [acl for acl in own if acl.permission is Permission.ALLOW]
    return Comparison(
        missing=tuple(acl for acl in wanted if not any(_covers(other, acl) for other in allowed)),
        too_wide=tuple(acl for acl in allowed if acl not in set(wanted)),
        denied=tuple(
            acl for acl in own if acl.permission is Permission.DENY and any(_overlaps(acl, one) for one in wanted)
        ),
    )


def _covers(other: Acl, acl: Acl) -> bool:
    return (
        other.principal in (acl.principal, EVERYBODY)
        and other.resource is acl.resource
        and other.operation in (acl.operation, Operation.ALL)
        and other.host == "*"
        and _name_covers(other, acl)
    )


def _name_covers(other: Acl, acl: Acl) -> bool:
    if other.pattern is Pattern.PREFIXED:
        return acl.name.startswith(other.name)
    return other.name == "*" or (other.name, other.pattern) == (acl.name, acl.pattern)


def _overlaps(denial: Acl, acl: Acl) -> bool:
    """Return whether a denial overlaps the permission of an ACL."""
    return (
        denial.principal in (acl.principal, EVERYBODY)
        and denial.resource is acl.resource
        and denial.operation in (acl.operation, Operation.ALL)
        and (_name_covers(denial, acl) or (acl.pattern is Pattern.PREFIXED and denial.name.startswith(acl.name)))
    )


_RESULTS = (
    topics.FINDINGS, topics.FINDINGS_OPEN, topics.REMEDIATIONS, topics.REMEDIATIONS_OPEN, topics.REMEDIATION_RESULTS,
    topics.CONTROLS, topics.CONTROL_ANSWERS, topics.LEMONS, topics.TOPOLOGY, topics.INVENTORY, topics.JOBS,
    topics.PROGRESS, topics.COLLECTOR_STATUS,
)  # fmt: skip
_COMMANDS = (topics.CONTROLS, topics.INVENTORY, topics.JOBS, topics.LEMONS)


def accesses(settings: Settings, collectors: Mapping[str, Access]) -> dict[str, Access]:
    """Return the access of each part by its name; `collectors` has the installed collectors."""
    cluster = settings.kafka.cluster
    stages = {name: binding.access(cluster) for name, binding in BINDINGS.items()}
    return {
        ADMIN: Access(administers=True),
        **collectors,
        **stages,
        PROCESS: _together(stages.values()),
        PERSIST: persist_access(settings.persist.group),
        NOTIFY: notifier.ACCESS | log_export.ACCESS,
        TICKETS: ticket_desk.ACCESS,
        LOCALITY: LOCALITY_ACCESS,
        AUTOMATION: Access(reads=(topics.REMEDIATIONS,), writes=(topics.REMEDIATION_RESULTS, topics.INPUT_LOSSES)),
        OPERATOR: Access(reads=(*_RESULTS, topics.FACTS, topics.REJECTED), writes=_COMMANDS),
        READER: Access(reads=_RESULTS, group_prefixes=("reader.",)),
    }


def principals(kafka: KafkaSettings, parts: Iterable[str]) -> Mapping[str, str]:
    """Return the principal of each part in Kafka's form."""
    return {part: kafka.principals.get(part, f"User:{USER_PREFIX}{part}") for part in parts}


def _together(accesses: Iterable[Access]) -> Access:
    total = Access()
    for access in accesses:
        total |= access
    return total
