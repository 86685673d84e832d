"""Implements the keys of the terminal program: explain by Kafka and ClickHouse, acknowledge by a control."""

from collections.abc import Callable

from streams.config.settings import Settings
from streams.report.acknowledge import acknowledge
from streams.report.explanation import NoSuchFinding, explain_finding
from streams.report.top.app import Actions
from streams.store.clickhouse import ClickHouse
from streams.wire.access import OPERATOR, READER
from streams.wire.errors import Retry


def actions(settings: Callable[[], Settings | None]) -> Actions:
    """Return them for a pipeline; `settings` returns None while its servers start."""

    def running() -> Settings:
        if (found := settings()) is None:
            raise Retry("the servers are starting; try again")
        return found

    def explain(identity: str) -> list[str]:
        found = running()
        clickhouse = ClickHouse(found.store)
        try:
            return list(explain_finding(found.kafka.of_part(READER), clickhouse, identity, samples=True).lines())
        except NoSuchFinding as error:
            raise Retry(str(error)) from error
        finally:
            clickhouse.close()

    return Actions(
        explain, lambda identity, reason: acknowledge(running().kafka.of_part(OPERATOR), identity, reason, None)
    )
