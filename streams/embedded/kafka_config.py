"""Defines the settings of the embedded brokers, and the properties and JVM flags derived from them.

kafka_node.py starts the brokers; the topic registry has the topics and their retention.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

# A columnar Samples message of a 128-port switch with lanes stays below 1 MiB, as do the chunks of snapshots.
LARGEST_MESSAGE_BYTES = 4 << 20
CRASH_REPORT = "jvm-crash.log"
SCRATCH = "scratch"


class KafkaParams(BaseModel):
    """Settings of the embedded Kafka; all have defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    brokers: Literal[1, 3] = 1
    """The number of brokers."""
    data: Path | None = None
    """The folder of its data; default: kafka in the user's data folder."""
    port: int | None = Field(default=None, ge=1, le=65533)
    """The first broker's port, others follow; default: free ones."""
    heap_mib: ClassVar[int] = 256
    """The Java heap of one broker; with it 156 MB are resident, measured."""
    jars: Path | None = None
    """The folder of the broker's jars; default: fetched into the cache folder."""
    security: Literal["none", "password", "tls"] = "password"
    """`password`: users with passwords (SCRAM-SHA-512) and ACLs; `tls`: the same over TLS; `none`: neither, for
    loopback without other users."""
    start_timeout_s: ClassVar[float] = 60.0
    """The limit of a start once the jars are here."""


BROKER_USER = "broker"
"""The brokers' own user, which may do everything; its password is in the brokers' configuration and in its file."""


@dataclass(frozen=True)
class Security:
    """The way in which the brokers of a cluster identify clients and each other.

    The password is that of BROKER_USER. With `certificate`, clients use TLS: a file in PEM with the key and the
    certificate. Clients without a certificate of `client_ca` are refused where that is set.
    """

    password: str
    certificate: Path | None = None
    client_ca: Path | None = None
    plain_users: Mapping[str, str] = field(default_factory=dict)
    """Passwords of users who may also log in by PLAIN: clients on librdkafka before 2.6.1 cannot log in by SCRAM to
    Kafka 4 (its change #4895), among them kcat of Debian 12."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Other properties, which override."""


@dataclass(frozen=True)
class Ports:
    """The two loopback ports of one node."""

    broker: int
    controller: int


def properties(
    node: int, ports: Sequence[Ports], log_dir: Path, security: Security | None = None
) -> dict[str, str | int]:
    """Return the properties of node `node` (counted from 1) of a cluster on these ports."""
    node_ports = ports[node - 1]
    copies = len(ports)
    in_sync = min(2, copies)
    return {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{i}@127.0.0.1:{p.controller}" for i, p in enumerate(ports, start=1)),
        "listeners": f"CLIENT://127.0.0.1:{node_ports.broker},CONTROLLER://127.0.0.1:{node_ports.controller}",
        "advertised.listeners": f"CLIENT://127.0.0.1:{node_ports.broker}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
        **_listener_security(security),
        "log.dirs": str(log_dir),
        "auto.create.topics.enable": "false",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        # 50 partitions each by default: made for clusters, and a kill -9 then recovers all of them.
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.num.partitions": 1,
        "message.max.bytes": LARGEST_MESSAGE_BYTES,
        "replica.fetch.max.bytes": LARGEST_MESSAGE_BYTES,
        # After kill -9 the old registration blocks the broker's restart until it expires:
        # 10.8 s with the defaults (9 s, 2 s), 3.7 s with these.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "group.initial.rebalance.delay.ms": 0,
        # A deleted segment keeps its space this long; the default minute outlives most demos.
        "log.segment.delete.delay.ms": 10000,
        "log.segment.bytes": 128 << 20,
        # Five minutes by default, in which 8 partitions of 2 MB/s outgrow their bound by 5 GB; in one, by 1 GB.
        "log.retention.check.interval.ms": 60000,
        # An empty record, twice a second by default, each flushed to disk: 0.025 CPU s a second of an idle
        # broker with it, 0.018 without, which at 78,600 port-samples/s is 0.08 s a million.
        "metadata.max.idle.interval.ms": 10000,
        # Requests that wait for a thread are on the heap, 500 of any size by default; past this, senders wait.
        # It may not be less than the largest request, which is 100 MiB by default.
        "queued.max.request.bytes": 100 << 20,
        # 128 MiB by default, half of the heap; 8 MiB at 24 bytes a key indexes 300,000 keys a pass.
        "log.cleaner.dedupe.buffer.size": 8 << 20,
        "log.cleaner.threads": 1,
        # One of either: 3 % less CPU with samples alone (tests/bench/broker_cost.py), nothing with the whole pipeline.
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
        # After kill -9 with 1.6 GB of log it was ready in 6 s, on a machine so busy that a first start took 8 s.
        "num.recovery.threads.per.data.dir": 2,
    }


def _listener_security(security: Security | None) -> dict[str, str]:
    """Return the properties of the listeners' security.

    The brokers log in to each other by PLAIN on loopback: SCRAM's users are in the metadata that controllers have, so
    that a controller could not identify a broker by them at its start.
    """
    if security is None:
        return {"listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    plain = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="{BROKER_USER}" password="{security.password}" user_{BROKER_USER}="{security.password}";'
    )
    others = "".join(f' user_{name}="{password}"' for name, password in security.plain_users.items())
    protocol = "SASL_PLAINTEXT" if security.certificate is None else "SASL_SSL"
    found = {
        "listener.security.protocol.map": f"CLIENT:{protocol},CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f"{plain.removesuffix(';')}{others};",
        "listener.name.client.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": plain,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{BROKER_USER}",
        "allow.everyone.if.no.acl.found": "false",
    }
    if security.certificate is not None:
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(security.certificate)}
        trusted = security.client_ca or security.certificate
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted)}
        found["ssl.client.auth"] = "none" if security.client_ca is None else "required"
    return {**found, **security.more}


def render(values: Mapping[str, str | int]) -> str:
    """Return properties in Java's format, in which a backslash is an escape and therefore doubled."""
    return "".join(f"{name}={str(value).replace(chr(92), chr(92) * 2)}\n" for name, value in values.items())


def jvm_flags(heap_mib: int, folder: Path, aot: Sequence[str] = (), *, tls: bool = False) -> list[str]:
    """Return the flags of a broker's JVM: serial collection and, without TLS, the first compiler only.

    The JVM is small and starts fast (156 MB resident, started in 1.8 s, measured), without a loss of speed: a
    broker under full load spends most of its time in the kernel's copying. The second compiler took the request
    threads from 1.20 to 1.15 CPU s a million port-samples in the third minute, and itself 0.15; collection takes
    0.03 with 256 MB. Only the second compiler has the instructions for AES: with TLS, the first alone costs 4 to 6
    times the broker's CPU (million records of 200 bytes: 5.9 to 8.3 CPU s, 1.1 to 1.5 with it).
    """
    return [
        f"-Xmx{heap_mib}m",
        "-Xms64m",
        "-XX:+UseSerialGC",
        *([] if tls else ["-XX:TieredStopAtLevel=1"]),
        # A full heap ends the broker, and the supervisor restarts it.
        "-XX:+ExitOnOutOfMemoryError",
        # No /tmp/hsperfdata file that a kill -9 leaves behind.
        "-XX:-UsePerfData",
        # The report of a JVM crash is written to the broker's folder, not to the working directory.
        f"-XX:ErrorFile={folder / CRASH_REPORT}",
        "-XX:-CreateCoredumpOnCrash",
        # The native parts of lz4, zstd and snappy are unpacked there, and stay after a kill -9; /tmp may be noexec.
        f"-Djava.io.tmpdir={folder / SCRATCH}",
        "-Djava.awt.headless=true",
        *_LOGGING,
        *aot,
    ]


# slf4j-simple is what the lock brings to log with; its levels are system properties.
# The network client warns several times a second of a peer that is down, for as long as it is.
_LOGGING = [
    f"-Dorg.slf4j.simpleLogger.{name}"
    for name in (
        "defaultLogLevel=warn",
        "showDateTime=true",
        "dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "log.kafka.server.KafkaRaftServer=info",
        "log.org.apache.kafka.clients.NetworkClient=error",
        # Each operation that no ACL permits.
        "log.kafka.authorizer.logger=info",
    )
]
