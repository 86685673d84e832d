"""Locks a broker's data folder and reads its cluster: id, number of brokers, ports.

A folder belongs to one cluster permanently, and its ports do not change, so that clients can reconnect.
"""

import base64
import json
import os
import random
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from streams.embedded.directories import try_lock
from streams.embedded.kafka_config import KafkaParams, Ports
from streams.embedded.running_instances import start_of
from streams.wire.errors import Misconfigured

# The range is below Linux's ephemeral ports (32768 and up): while the broker is down, an outgoing connection can take
# an ephemeral port, and a client that reconnects may even connect to itself.
FIRST_PORT, LAST_PORT = 20000, 32000


@dataclass(frozen=True)
class Cluster:
    """The cluster of a data folder, as recorded in it."""

    cluster_id: str
    ports: tuple[Ports, ...]


def is_free(port: int) -> bool:
    """Return whether a server can listen on this loopback port."""
    with socket.socket() as probe:
        # Ignores connections in TIME_WAIT of a broker that has just ended, as the JVM does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Return `count` free loopback ports, in random order so that concurrent callers get different ones."""
    order = random.SystemRandom().sample(range(FIRST_PORT, LAST_PORT), 2000)
    found: list[int] = []
    for port in order:
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise Misconfigured(f"no {count} free ports between {FIRST_PORT} and {LAST_PORT} on 127.0.0.1")


def stable_port(record: Path) -> int:
    """Return the port that the file records if it is free; else record and return another one."""
    try:
        port = int(record.read_text())
    except (OSError, ValueError):
        port = 0
    if not port or not is_free(port):
        (port,) = free_ports(1)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(f"{port}\n")
    return port


def prepare_cluster(folder: Path, params: KafkaParams) -> Cluster:
    """Return the cluster of this folder on free ports; create and record it if it is new."""
    record = folder / "cluster.json"
    cluster = _read(record)
    if cluster is None:
        cluster = Cluster(new_cluster_id(), (Ports(0, 0),) * params.brokers)
    elif len(cluster.ports) != params.brokers:
        raise Misconfigured(
            f"data folder {folder} has a cluster of {len(cluster.ports)}, not of {params.brokers}:"
            f" start it with --brokers {len(cluster.ports)}, or choose another folder"
        )
    cluster = replace(cluster, ports=_chosen(cluster.ports, params.port))
    scratch = record.with_suffix(".new")
    scratch.write_text(json.dumps(asdict(cluster)))
    scratch.replace(record)
    return cluster


def new_cluster_id() -> str:
    """Return a new id in Kafka's form: a UUID in URL-safe base64 that does not begin like an option."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


def _chosen(before: tuple[Ports, ...], first: int | None) -> tuple[Ports, ...]:
    wanted = [ports.broker if first is None else first + i for i, ports in enumerate(before)]
    if first is not None and (taken := [port for port in wanted if not is_free(port)]):
        raise Misconfigured(
            f"port {taken[0]} on 127.0.0.1 is taken; choose another with --port, or none for a free one"
        )
    spare = iter(set(free_ports(2 * len(before) + len(wanted))) - set(wanted))
    return tuple(
        Ports(
            broker if broker and is_free(broker) else next(spare),
            ports.controller if ports.controller and is_free(ports.controller) else next(spare),
        )
        for broker, ports in zip(wanted, before, strict=True)
    )


def _read(record: Path) -> Cluster | None:
    try:
        stored = json.loads(record.read_text())
        return Cluster(stored["cluster_id"], tuple(Ports(**ports) for ports in stored["ports"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise Misconfigured(f"{record} is not what a broker wrote; the data folder is damaged") from error


@contextmanager
def lock(folder: Path, timeout_s: float) -> Iterator[int]:
    """Lock the folder for one cluster; yield the descriptor that its servers must inherit.

    The lock is released when the last process with the descriptor ends, so a broker that is stopping still has it.
    Raises Misconfigured at once if the owner runs, or after `timeout_s` if only the owner's broker runs.
    """
    give_up = time.monotonic() + timeout_s
    while (descriptor := try_lock(folder)) is None:
        owner = (folder / "lock").read_text(errors="replace").strip()
        if (owner.isdigit() and start_of(int(owner))) or time.monotonic() > give_up:
            raise Misconfigured(f"data folder {folder} is in use by another broker (process {owner or 'unknown'})")
        time.sleep(0.05)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
