"""Carries out approved remediations until it is stopped: `python -m railsight_automation --config automation.toml`."""

import argparse
import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka
from aiokafka.errors import KafkaConnectionError, KafkaError

from railsight_automation.config import Config, KafkaParams, load
from railsight_automation.engine import Engine
from railsight_automation.errors import Misconfigured
from railsight_automation.gnmi_client import GnmiClient
from railsight_automation.host_commands import HostCommands
from railsight_automation.journal import Journal
from railsight_automation.kubernetes_nodes import KubernetesHosts, OfficialClient
from railsight_automation.links import Links
from railsight_automation.log_setup import FORMATS, configure_logging
from railsight_automation.plan import Part, Parts
from railsight_automation.service import KafkaAnswers, Service
from railsight_automation.signing import Verifier, load_signer
from railsight_automation.slurm import SlurmHosts
from railsight_automation.slurm_reboot import SlurmReboot
from railsight_automation.status import Status, StatusParams, serve
from streams.wire.kafka_login import FilePassword, FileToken
from streams.wire.kafka_login import client_options as login_options
from streams.wire.tls_files import TlsFiles

log = logging.getLogger("railsight_automation")

_CONNECT_S = 2.0
_STOP_S = 1.0


def main() -> int:
    """Run until SIGTERM or Ctrl-C; return 2 if the configuration is invalid."""
    parser = argparse.ArgumentParser(prog="railsight_automation", description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--check", action="store_true", help="read the configuration and end")
    parser.add_argument("--take-over", default="", metavar="INSTANCE", help="use the journal of an instance that ended")
    parser.add_argument("--log-format", choices=FORMATS, default="text")
    arguments = parser.parse_args()
    configure_logging(arguments.log_format)
    try:
        config = load(arguments.config)
        if not arguments.check:
            with contextlib.suppress(asyncio.CancelledError):
                asyncio.run(run(config, arguments.config.parent, arguments.take_over))
    except Misconfigured as error:
        sys.stderr.write(f"railsight_automation: {error}\n")
        return 2
    return 0


async def run(config: Config, folder: Path, take_over: str = "") -> None:
    """Run the service with Kafka, the devices and the system clock."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    async with contextlib.AsyncExitStack() as stack:
        parts = host_parts(config)
        if config.gnmi is not None:
            client = GnmiClient(config.gnmi.addresses(folder), config.gnmi.access(folder))
            stack.push_async_callback(client.close)
            parts.append(Links(client, config.links))
        signer = load_signer(folder / config.signing_key, config.fabric, config.actor) if config.signing_key else None
        verifier = Verifier(config.trusted_keys, config.fabric)
        journal = Journal(folder / config.journal, config.instance or socket.gethostname(), take_over)
        stack.callback(journal.close)
        journal.compact(time.time_ns())
        watched = config.status or StatusParams()
        status = Status(time.monotonic, watched.stuck_s)
        if config.status is not None:
            stack.callback(serve(status, watched))
        options = client_options(config.kafka, folder)
        producer = await _started(
            lambda: aiokafka.AIOKafkaProducer(acks="all", enable_idempotence=True, **options), stack
        )
        await _until_exists(config.kafka.remediations, options)
        consumer = await _started(
            lambda: aiokafka.AIOKafkaConsumer(
                config.kafka.remediations,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",  # `decide` publishes in transactions
                **options,
            ),
            stack,
        )
        answers = KafkaAnswers(
            producer,
            config.kafka.results,
            config.actor,
            time.time_ns,
            KafkaError,
            signer,
            status=status,
            losses=config.kafka.losses,
        )
        engine = Engine(journal, Parts(parts), answers, config.actor, time.time_ns, config.confirm_s)
        stack.callback(asyncio.create_task(status.watch(consumer)).cancel)
        await Service(consumer, engine, journal, status, answers, verifier).run()


def host_parts(config: Config) -> list[Part]:
    """Return the parts for hosts: the scheduler's, and the commands, which use its cordon."""
    parts: list[Part] = []
    hosts: SlurmHosts | KubernetesHosts | None = None
    if config.slurm is not None:
        hosts = SlurmHosts(config.slurm)
        parts += [hosts, *([SlurmReboot(config.slurm, hosts, time.time_ns)] if config.slurm.reboot else [])]
    elif config.kubernetes is not None:
        hosts = KubernetesHosts(config.kubernetes, OfficialClient(config.kubernetes))
        parts.append(hosts)
    return [*parts, HostCommands(config.commands, hosts)]


async def _started(make: Callable[[], Any], stack: contextlib.AsyncExitStack) -> Any:
    """Start a Kafka client, wait until a broker answers, and return it."""
    while True:
        client = make()
        try:
            await client.start()
        except KafkaConnectionError as error:
            log.warning("retrying connection error=%s", error)
            await _stop(client)
            await asyncio.sleep(_CONNECT_S)
        else:
            stack.push_async_callback(_stop, client)
            return client


async def _stop(client: Any) -> None:
    """Stop a client within a time limit, because aiokafka waits for brokers; the journal has unsent answers."""
    stopping = asyncio.ensure_future(client.stop())
    await asyncio.wait({stopping}, timeout=_STOP_S)
    if not stopping.cancel() and not stopping.cancelled():
        stopping.exception()  # retrieved, so that asyncio does not log it


async def _until_exists(topic: str, options: dict[str, Any]) -> None:
    """Wait until a topic exists, because a consumer of a missing topic fails after its timeout."""
    async with contextlib.AsyncExitStack() as stack:
        consumer = await _started(lambda: aiokafka.AIOKafkaConsumer(group_id=None, **options), stack)
        while topic not in await consumer.topics():
            log.warning("waiting for topic=%s", topic)
            await asyncio.sleep(_CONNECT_S)


def client_options(params: KafkaParams, folder: Path) -> dict[str, Any]:
    """Return the connection options of both clients."""
    ca, cert, key = (folder / name if name else None for name in (params.ca, params.cert, params.key))
    files = TlsFiles(ca, cert, key)
    mechanism = params.mechanism if params.username or params.token_file else None
    try:
        secret = FilePassword.read(folder / params.password_file) if params.password_file else ""
        token = FileToken(folder / params.token_file) if params.token_file else None
        return login_options(params.bootstrap, files if params.tls else None, mechanism, params.username, secret, token)
    except (OSError, ValueError) as error:
        names = ", ".join(
            map(str, (*files.present(), *([folder / params.password_file] if params.password_file else ())))
        )
        raise Misconfigured(
            f"kafka: cannot read {names} ({error}); check ca, cert and key, and password_file"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
