"""Each part is refused what it does not need; `railsight acl check` finds what is missing and what is too wide."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError
from typer.testing import CliRunner

from streams.cli.administer import acl
from streams.config.kafka import KafkaSettings
from streams.runtime.access_admin import open_access_admin
from streams.runtime.acl import PRODUCER, Acl, Operation, Pattern, Quota, Resource, derive, principals
from streams.wire.topics import AUTOMATION, COLLECTOR, NOTIFY, OPERATOR, PERSIST, READER, TOPICS
from tests.integration.kafka_identity.conftest import SecureKafka, needs


@pytest.mark.parametrize("part", [COLLECTOR, PERSIST, NOTIFY, AUTOMATION, OPERATOR, READER, "decide"])
async def test_a_part_writes_only_what_it_must(secure: SecureKafka, part: str) -> None:
    """Every other topic of the registry is refused, with its name and the next step."""
    may_write = needs()[part].writes
    async with AIOKafkaProducer(**secure.settings.of_part(part).client_options()) as producer:
        for topic in TOPICS:
            if topic not in may_write:
                line = rf"the topic {re.escape(topic.name)}; .*`railsight acl"
                with pytest.raises(TopicAuthorizationFailedError, match=line):
                    await producer.send_and_wait(topic.name, b"x", key=b"k")


@pytest.mark.parametrize("part", [COLLECTOR, AUTOMATION, READER])
async def test_a_part_sees_only_what_it_must(secure: SecureKafka, part: str) -> None:
    """Of every other topic of the registry it does not even get the partitions, so that it cannot read it."""
    access = needs()[part]
    async with AIOKafkaProducer(**secure.settings.of_part(part).client_options()) as client:
        for topic in TOPICS:
            if topic not in (*access.reads, *access.writes):
                with pytest.raises(TopicAuthorizationFailedError):
                    await client.partitions_for(topic.name)


async def test_check_names_what_is_missing_and_what_is_too_wide(secure: SecureKafka, tmp_path: Path) -> None:
    """Exit 0 with the ACLs as applied; 1 with one line for each difference; apply --prune repairs both."""
    config = tmp_path / "railsight.toml"
    lines = [f"{name} = {str(value).lower() if value is True else repr(value)}" for name, value in login(secure)]
    config.write_text("\n".join(["[kafka]", *lines, ""]))
    assert run("check", config) == (0, f"{len(needed())} ACLs, as needed\n")
    missing = next(one for one in needed() if one.principal == "User:railsight-persist")
    quota = Quota("railsight-collector", PRODUCER, 32 << 20)
    wide = Acl("User:railsight-collector", Resource.TOPIC, "railsight.", Operation.ALL, Pattern.PREFIXED)
    async with open_access_admin(secure.kafka.client_options()) as admin:
        await admin.delete([missing])
        await admin.set_quotas([replace(quota, bytes_per_s=2 * quota.bytes_per_s)])
        while quota in await admin.quotas():
            pass
        await admin.create([wide])
        await admin.until_applied([wide])
    code, output = run("check", config)
    assert (code, output.splitlines()) == (1, [f"missing: {missing}", f"too wide: {wide}", f"not set: {quota}"])
    code, output = run("apply", config, "--prune")
    assert (code, output.splitlines()) == (0, [f"set: {quota}", f"created: {missing}", f"deleted: {wide}"])
    async with open_access_admin(secure.kafka.client_options()) as admin:
        await admin.until_applied(needed())
        while wide in await admin.acls() or quota not in await admin.quotas():
            pass
    assert run("check", config)[0] == 0


def login(secure: SecureKafka) -> list[tuple[str, str | bool]]:
    return [("bootstrap", secure.kafka.bootstrap), *secure.login.settings().items()]


def needed() -> list[Acl]:
    return derive(needs(), principals(KafkaSettings(), needs()))


def run(command: str, config: Path, *options: str) -> tuple[int, str]:
    """Run `railsight acl COMMAND` in a thread of its own, as it has an event loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(CliRunner().invoke, acl, [command, "--config", str(config), *options]).result()
    return result.exit_code, result.output
