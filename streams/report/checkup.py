"""Checks the external needs of a configuration, without changes: brokers, topics, ClickHouse, Alertmanager."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from streams.config.settings import Settings
from streams.embedded.clickhouse.params import WITHOUT_SANDBOX, WITHOUT_SANDBOX_MACRO
from streams.runtime.admin import list_topics
from streams.store.clickhouse import ClickHouse, QueryClient
from streams.store.migrate import pending_migrations, shipped_migrations
from streams.wire.errors import Misconfigured, Retry
from streams.wire.topics import ADMIN

_CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check, and on failure the reason with the next step."""

    name: str
    is_well: bool
    text: str

    def as_dict(self) -> dict[str, object]:
        """Return the check as JSON values."""
        return {"check": self.name, "well": self.is_well, "text": self.text}


def connection_checks(settings: Settings, *, is_planned: bool = False) -> Iterator[Check]:
    """Yield a check for each server that the settings name; before a first start those of `up` are not there yet."""
    starts = "`railsight up` starts it on this machine"
    is_embedded = is_planned and "bootstrap" not in settings.kafka.model_fields_set
    yield Check("Kafka", True, starts) if is_embedded else _topics(settings)
    is_embedded = is_planned and "url" not in settings.store.model_fields_set
    yield Check("ClickHouse", True, starts) if is_embedded else _clickhouse(settings)
    if "alertmanagers" in settings.notify.model_fields_set:
        for url in settings.notify.alertmanagers:
            yield _address("Alertmanager", url, 443 if url.startswith("https") else 80)
    if settings.tickets is not None:
        yield _address("tickets", settings.tickets.url, 443 if settings.tickets.url.startswith("https") else 80)


def _topics(settings: Settings) -> Check:
    try:
        states = asyncio.run(list_topics(settings.kafka.of_part(ADMIN)))
    except (Retry, Misconfigured) as error:
        return Check("Kafka", False, str(error).splitlines()[0])
    if problems := [f"{state.topic.name}: {state.problem}" for state in states if state.problem]:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        step = "create it with `railsight topics`, or set kafka.telemetry_partitions and pod_partitions to what it has"
        return Check("topics", False, f"{problems[0]}{more}; {step}")
    return Check("Kafka", True, f"{settings.kafka.bootstrap} answers, with all {len(states)} topics")


def sandbox_problem(clickhouse: QueryClient) -> str:
    """Return a warning if ClickHouse is the embedded one without its sandbox, else an empty text."""
    asked = f"SELECT count() FROM system.macros WHERE macro = '{WITHOUT_SANDBOX_MACRO}'"  # noqa: S608 — a constant
    return WITHOUT_SANDBOX if clickhouse.query(asked)[0][0] else ""


def _clickhouse(settings: Settings) -> Check:
    client = ClickHouse(settings.store)
    try:
        pending = pending_migrations(client, shipped_migrations())
        problem = sandbox_problem(client)
    except (Retry, Misconfigured) as error:
        return Check("ClickHouse", False, str(error).splitlines()[0])
    finally:
        client.close()
    if pending:
        return Check("ClickHouse", False, f"{len(pending)} migrations are missing; run `railsight migrate`")
    if problem:
        return Check("ClickHouse", False, problem)
    return Check("ClickHouse", True, f"{settings.store.url} answers, and its tables are up to date")


def _address(name: str, url: str, default_port: int) -> Check:
    parts = urlsplit(url)

    async def connect() -> None:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or default_port)
            writer.close()

    try:
        asyncio.run(connect())
    except TimeoutError:
        return Check(name, False, f"{url}: no answer within {_CONNECT_S:g} s; check the address and the firewall")
    except ConnectionRefusedError:
        return Check(name, False, f"{url}: connection refused; start it, or correct the address")
    except OSError as error:
        return Check(name, False, f"{url}: {error.strerror or error}; correct the address")
    return Check(name, True, f"{url} accepts connections")
