"""The parts of railsight that log in to Kafka, each with a principal of its own, and what each does there.

The access of stages, sink, notifier and collectors is declared where their code is; that of people and of programs
outside of this package is here.
"""

from collections.abc import Iterable, Mapping

from streams.config.kafka import USER_PREFIX, KafkaSettings
from streams.config.settings import Settings
from streams.locality.access import ACCESS as LOCALITY_ACCESS
from streams.notify import service as notifier
from streams.notify.tickets import service as ticket_desk
from streams.runtime.bindings import BINDINGS
from streams.store.persist.persisted_topics import access as persist_access
from streams.wire import topics
from streams.wire.access import ADMIN, AUTOMATION, LOCALITY, NOTIFY, OPERATOR, PERSIST, PROCESS, READER, TICKETS, Access

_RESULTS = (
    topics.FINDINGS, topics.FINDINGS_OPEN, topics.REMEDIATIONS, topics.REMEDIATIONS_OPEN, topics.REMEDIATION_RESULTS,
    topics.CONTROLS, topics.LEMONS, topics.TOPOLOGY, topics.INVENTORY, topics.JOBS, topics.PROGRESS,
    topics.COLLECTOR_STATUS,
)  # fmt: skip
_COMMANDS = (topics.CONTROLS, topics.INVENTORY, topics.JOBS, topics.LEMONS)


def accesses(settings: Settings, collectors: Mapping[str, Access]) -> dict[str, Access]:
    """Return what each part does, by name; `collectors` has those that are installed."""
    cluster = settings.kafka.cluster
    stages = {name: binding.access(cluster) for name, binding in BINDINGS.items()}
    return {
        ADMIN: Access(administers=True),
        **collectors,
        **stages,
        PROCESS: _together(stages.values()),
        PERSIST: persist_access(settings.persist.group),
        NOTIFY: notifier.ACCESS,
        TICKETS: ticket_desk.ACCESS,
        LOCALITY: LOCALITY_ACCESS,
        AUTOMATION: Access(reads=(topics.REMEDIATIONS,), writes=(topics.REMEDIATION_RESULTS, topics.INPUT_LOSSES)),
        OPERATOR: Access(reads=(*_RESULTS, topics.FACTS), writes=_COMMANDS),
        READER: Access(reads=_RESULTS, group_prefixes=("reader.",)),
    }


def principals(kafka: KafkaSettings, parts: Iterable[str]) -> Mapping[str, str]:
    """Return the principal of each part, as Kafka spells it."""
    return {part: kafka.principals.get(part, f"User:{USER_PREFIX}{part}") for part in parts}


def _together(accesses: Iterable[Access]) -> Access:
    total = Access()
    for access in accesses:
        total |= access
    return total
