"""Defines the settings of the embedded brokers, and derives their properties and JVM flags.

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
    """The data folder; default: `kafka` in the user's data folder."""
    port: int | None = Field(default=None, ge=1, le=65533)
    """The first broker's port; the other ports follow it. Default: free ports."""
    heap_mib: ClassVar[int] = 256
    """The Java heap of one broker, which has 156 MB resident (measured)."""
    jars: Path | None = None
    """The folder of the broker's jars; by default they are fetched into the cache folder."""
    security: Literal["none", "password", "tls"] = "password"
    """`password`: users with passwords (SCRAM-SHA-512) and ACLs; `tls`: the same over TLS; `none`: no users and no
    ACLs, for a machine without other users."""
    start_timeout_s: ClassVar[float] = 180.0
    """The limit of a start, without the download of the jars. A start takes 2 s, and more than 60 s at a load of 17 on
    two cores; a broker that ends is noticed at once."""


BROKER_USER = "broker"
"""The brokers' own user, which has all rights; its password is in the brokers' configuration and in its file."""


@dataclass(frozen=True)
class Security:
    """Configures how the brokers of a cluster identify clients and each other.

    `password` belongs to BROKER_USER. `certificate` is a PEM file with key and certificate; with it, clients use TLS.
    With `client_ca`, the brokers refuse clients without a certificate of that CA.
    """

    password: str
    certificate: Path | None = None
    client_ca: Path | None = None
    plain_users: Mapping[str, str] = field(default_factory=dict)
    """Passwords of users who may also log in by PLAIN: clients on librdkafka before 2.6.1, such as kcat of Debian 12,
    cannot log in to Kafka 4 by SCRAM (its change #4895)."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Other properties, which override the derived ones."""


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
        # The default of 50 partitions each is for clusters; after a kill -9 the broker recovers all of them.
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.num.partitions": 1,
        "message.max.bytes": LARGEST_MESSAGE_BYTES,
        "replica.fetch.max.bytes": LARGEST_MESSAGE_BYTES,
        # After kill -9 the old registration blocks the broker's restart until it expires:
        # 10.8 s with the defaults (9 s, 2 s), 3.7 s with these (and a heartbeat every 0.5 s).
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 1000,
        "group.initial.rebalance.delay.ms": 0,
        # A deleted segment occupies its space this long; the default of a minute is longer than most demos.
        "log.segment.delete.delay.ms": 10000,
        "log.segment.bytes": 128 << 20,
        # In the default five minutes, 8 partitions of 2 MB/s exceed their limit by 5 GB; in one minute, by 1 GB.
        "log.retention.check.interval.ms": 60000,
        # By default an idle controller writes and flushes an empty record twice a second: an idle broker then takes
        # 0.025 CPU s per second, else 0.018. At 78,600 port-samples/s the difference is 0.08 s per million.
        "metadata.max.idle.interval.ms": 10000,
        # Queued requests are on the heap, by default 500 of any size; above this limit, senders wait. The limit may not
        # be less than the largest request, which is 100 MiB by default.
        "queued.max.request.bytes": 100 << 20,
        # The default of 128 MiB is half of the heap; 8 MiB index 300,000 keys of 24 bytes per pass.
        "log.cleaner.dedupe.buffer.size": 8 << 20,
        "log.cleaner.threads": 1,
        # With one thread of each kind, samples alone took 3 % less CPU (DECISIONS.md), and the whole
        # pipeline the same.
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
        # After kill -9 with 1.6 GB of log the broker was ready in 6 s, on a busy machine where a first start took 8 s.
        "num.recovery.threads.per.data.dir": 2,
    }


def _listener_security(security: Security | None) -> dict[str, str]:
    """Return the properties of the listeners' security.

    The brokers log in to each other by PLAIN on loopback: SCRAM's users are in the metadata, which a controller does
    not have yet when a broker logs in at the start.
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
    """Return properties in Java's format, with backslashes doubled because they escape."""
    return "".join(f"{name}={str(value).replace(chr(92), chr(92) * 2)}\n" for name, value in values.items())


def jvm_flags(heap_mib: int, folder: Path, aot: Sequence[str] = (), *, tls: bool = False) -> list[str]:
    """Return the flags of a broker's JVM: serial collection and, without TLS, the first compiler only.

    The JVM is small and starts fast (156 MB resident, 1.8 s, measured) and is not slower: a broker under full load
    spends most of its time copying in the kernel. With the second compiler the request threads took 1.15 instead of
    1.20 CPU s per million port-samples in the third minute, and the compiler itself 0.15; collection takes 0.03 with
    256 MB. Only the second compiler uses the AES instructions: with TLS, the first alone takes 4 to 6 times the CPU
    (a million records of 200 bytes: 5.9 to 8.3 CPU s, with the second 1.1 to 1.5).
    """
    return [
        f"-Xmx{heap_mib}m",
        "-Xms64m",
        "-XX:+UseSerialGC",
        *([] if tls else ["-XX:TieredStopAtLevel=1"]),
        # When the heap is full, the broker ends and the supervisor restarts it.
        "-XX:+ExitOnOutOfMemoryError",
        # Avoids the file /tmp/hsperfdata, which a kill -9 leaves behind.
        "-XX:-UsePerfData",
        # The report of a JVM crash is written to the broker's folder, not to the working directory.
        f"-XX:ErrorFile={folder / CRASH_REPORT}",
        "-XX:-CreateCoredumpOnCrash",
        # lz4, zstd and snappy unpack native libraries there, which stay after a kill -9; /tmp may be noexec.
        f"-Djava.io.tmpdir={folder / SCRATCH}",
        "-Djava.awt.headless=true",
        *_LOGGING,
        *aot,
    ]


# The lock's logger is slf4j-simple; its levels are system properties.
# The network client logs several warnings per second while a peer is down.
_LOGGING = [
    f"-Dorg.slf4j.simpleLogger.{name}"
    for name in (
        "defaultLogLevel=warn",
        "showDateTime=true",
        "dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "log.kafka.server.KafkaRaftServer=info",
        "log.org.apache.kafka.clients.NetworkClient=error",
        # Logs each operation that no ACL permits.
        "log.kafka.authorizer.logger=info",
    )
]
