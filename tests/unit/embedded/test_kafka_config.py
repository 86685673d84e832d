"""Tests the properties of the embedded brokers."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from streams.embedded.kafka_config import KafkaParams, Ports, Security, jvm_flags, properties, render

ONE = (Ports(20001, 20002),)
THREE = (*ONE, Ports(20003, 20004), Ports(20005, 20006))


@pytest.mark.parametrize("ports", [ONE, THREE])
def test_every_address_is_loopback(ports: tuple[Ports, ...]) -> None:
    """No listener of any node is reachable from another machine."""
    for node in range(1, len(ports) + 1):
        found = properties(node, ports, Path("/data"))
        for name in ("listeners", "advertised.listeners"):
            assert all("//127.0.0.1:" in address for address in str(found[name]).split(","))


def test_a_node_has_its_own_ports_and_knows_all_controllers() -> None:
    """Nodes differ in id and listeners and agree on who votes."""
    found = properties(2, THREE, Path("/data"))
    assert found["node.id"] == 2
    assert found["listeners"] == "CLIENT://127.0.0.1:20003,CONTROLLER://127.0.0.1:20004"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:20002,2@127.0.0.1:20004,3@127.0.0.1:20006"


@pytest.mark.parametrize(("ports", "copies", "in_sync"), [(ONE, 1, 1), (THREE, 3, 2)])
def test_three_brokers_keep_three_copies(ports: tuple[Ports, ...], copies: int, in_sync: int) -> None:
    """One broker asks for what one can give; of three, one may be lost."""
    found = properties(1, ports, Path("/data"))
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert found[f"{topic}.replication.factor"] == copies
    assert (found["default.replication.factor"], found["min.insync.replicas"]) == (copies, in_sync)


def test_followers_fetch_the_largest_message() -> None:
    """A message that the leader takes can be copied: both limits are 4 MiB."""
    found = properties(1, THREE, Path("/data"))
    assert found["message.max.bytes"] == found["replica.fetch.max.bytes"] == 4 * 1024 * 1024


def test_topics_are_never_created_by_a_misspelt_name() -> None:
    """Topics come from the registry alone."""
    assert properties(1, ONE, Path("/data"))["auto.create.topics.enable"] == "false"


def test_properties_are_written_as_java_reads_them() -> None:
    """A backslash in a folder's name survives Java's reading of it."""
    assert render({"node.id": 1, "log.dirs": "/a\\b"}) == "node.id=1\nlog.dirs=/a\\\\b\n"


def test_the_heap_is_bounded_and_a_full_one_ends_the_broker() -> None:
    """The chosen heap is the JVM's bound, and a broker that reached it does not linger."""
    flags = jvm_flags(300, Path("/data"), ["-XX:AOTCache=x"])
    assert {"-Xmx300m", "-XX:+ExitOnOutOfMemoryError", "-XX:AOTCache=x"} <= set(flags)


@pytest.mark.parametrize("wrong", [{"broker": 3}, {"brokers": 2}, {"port": 0}])
def test_a_choice_that_does_not_exist_is_refused_by_name(wrong: dict[str, int]) -> None:
    """Unknown keys and invalid values are errors."""
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        KafkaParams.model_validate(wrong)


def test_with_users_nothing_is_open(tmp_path: Path) -> None:
    """Every listener asks for a login, an operation without an ACL is denied, and only the named users have PLAIN."""
    plain = Security("of-the-broker", plain_users={"railsight-reader": "of-the-reader"})
    found = properties(1, [Ports(20000, 20001)], tmp_path, plain)
    assert found["listener.security.protocol.map"] == "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
    assert found["allow.everyone.if.no.acl.found"] == "false" and found["super.users"] == "User:broker"
    assert 'user_railsight-reader="of-the-reader";' in str(found["listener.name.client.plain.sasl.jaas.config"])
    assert "reader" not in str(found["listener.name.controller.plain.sasl.jaas.config"])
    tls = properties(1, [Ports(20000, 20001)], tmp_path, Security("p", tmp_path / "both.pem"))
    assert tls["listener.security.protocol.map"] == "CLIENT:SASL_SSL,CONTROLLER:SASL_PLAINTEXT"
