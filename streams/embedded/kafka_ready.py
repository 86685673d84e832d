"""Checks whether brokers are ready: each must validate the creation of a topic.

A broker accepts connections and returns metadata earlier, while the controller still fences it: creating a topic or
producing then fails (FAUST measurements, Kafka 4.3).
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from streams.embedded.kafka_config import BROKER_USER, Security
from streams.wire.kafka_clients import controller_errors
from streams.wire.kafka_login import client_options
from streams.wire.tls_files import TlsFiles

NO_ERROR, TOPIC_ALREADY_EXISTS = 0, 36
PROBE = "railsight.ready"


def login_of(security: Security | None) -> dict[str, Any]:
    """Return the arguments with which an aiokafka client logs in as the brokers' own user."""
    if security is None:
        return {"security_protocol": "PLAINTEXT"}
    tls = None if security.certificate is None else TlsFiles(security.certificate)
    return client_options("", tls, "PLAIN", BROKER_USER, security.password)


def all_ready(ports: Sequence[int], copies: int, login: Mapping[str, Any], timeout_s: float = 2.0) -> bool:
    """Return whether each broker on these loopback ports would create a topic of `copies` replicas.

    Blocks for at most `timeout_s`; may be called from any thread, even one with a running event loop.
    """
    # Checks the ports first, because a Kafka client logs errors and waits if a port is closed.
    if not all(_listens(port) for port in ports):
        return False
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _all_would_create(ports, copies, login, timeout_s)).result()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
    except OSError:
        return False
    return True


async def _all_would_create(ports: Sequence[int], copies: int, login: Mapping[str, Any], timeout_s: float) -> bool:
    return all(await asyncio.gather(*(_would_create(port, copies, login, timeout_s) for port in ports)))


async def _would_create(port: int, copies: int, login: Mapping[str, Any], timeout_s: float) -> bool:
    options = {**login, "bootstrap_servers": f"127.0.0.1:{port}", "request_timeout_ms": int(timeout_s * 1000)}
    admin = AIOKafkaAdminClient(**options)
    with suppress(KafkaError, OSError, TimeoutError), controller_errors():
        async with asyncio.timeout(timeout_s):
            try:
                await admin.start()
                topic = NewTopic(PROBE, num_partitions=1, replication_factor=copies)
                answer = await admin.create_topics([topic], validate_only=True)
            finally:
                await admin.close()
        return {error[1] for error in answer.topic_errors} <= {NO_ERROR, TOPIC_ALREADY_EXISTS}
    return False
