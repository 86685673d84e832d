"""The whole path over TLS with users, ACLs and MACs: a fault is found, stored, paged, answered, and nothing denied."""

import asyncio
import itertools
import json
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from lab.demo import acting
from streams.cli.options import collector_access, collector_params
from streams.config.settings import load
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams, Security
from streams.embedded.kafka_data_dir import free_ports, new_cluster_id
from streams.embedded.kafka_ready import PROBE
from streams.embedded.watched_process import WatchedProcess
from streams.runtime.access_admin import BrokerLogin, create_users
from streams.runtime.acl import accesses
from streams.runtime.local_pipeline import railsight_command
from streams.wire.identity import new_secret
from streams.wire.topics import AUTOMATION, COLLECTOR, CONTROLS, REMEDIATION_RESULTS, STAGES
from tests.fixtures.certificates import CertificateAuthority
from tests.fixtures.external_programs import program
from tests.fixtures.running_task import run_beside

pytestmark = pytest.mark.timeout(600)

LINES = "gnmic.lines"
BRIDGED = "leaf-of-gnmic"
_BOUND_S = 240.0


@dataclass
class WholePath:
    """The servers, and the configurations of the parts."""

    folder: Path
    kafka: EmbeddedKafka
    clickhouse: EmbeddedClickHouse
    alertmanager: str
    config: Path
    stage_configs: dict[str, Path]

    def denials(self) -> list[str]:
        """Return what the broker's authorizer has denied, but the probe of a stage that may not create topics."""
        lines = (self.folder / "kafka/node-1/server.log").read_text(errors="replace").splitlines()
        return [line for line in lines if "is Denied operation" in line and f"Topic:LITERAL:{PROBE} " not in line]

    def query(self, sql: str) -> list[list[str]]:
        """Return the rows of a query; none while the tables are not there."""
        headers = {"X-ClickHouse-User": self.clickhouse.user, "X-ClickHouse-Key": self.clickhouse.password}
        url = f"{self.clickhouse.url}/?database=railsight"
        request = urllib.request.Request(url, data=f"{sql} FORMAT JSONCompactEachRow".encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return [json.loads(line) for line in answer.read().splitlines()]

    def alerts(self) -> set[str]:
        """Return the ids of the findings that have an active alert."""
        with urllib.request.urlopen(f"{self.alertmanager}/api/v2/alerts", timeout=10) as answer:
            return {alert["labels"].get("finding_id", "") for alert in json.load(answer)} - {""}


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


@contextmanager
def started(folder: Path, *, certificates: bool) -> Iterator[WholePath]:
    """Run Kafka with a listener for logins and one for certificates, ClickHouse and Alertmanager."""
    ca = CertificateAuthority(folder / "pki")
    certificate, key = ca.signed("broker")
    both = write(folder / "pki/both.pem", key.read_text(), certificate.read_text(), ca.file.read_text())
    data = folder / "kafka"
    data.mkdir()
    port, controller, mutual, alerts = free_ports(4)
    cluster = {"cluster_id": new_cluster_id(), "ports": [{"broker": port, "controller": controller}]}
    (data / "cluster.json").write_text(json.dumps(cluster))
    listeners = [f"CLIENT://127.0.0.1:{port}", f"MUTUAL://127.0.0.1:{mutual}"]
    security = Security(
        "of-the-broker", both, more={
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": "CLIENT:SASL_SSL,MUTUAL:SSL,CONTROLLER:SASL_PLAINTEXT",
            "listener.name.mutual.ssl.client.auth": "required",
            # The principal of CN=railsight-measure is that of the login railsight-measure.
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "ssl.truststore.location": str(ca.file),
        },
    )  # fmt: skip
    with ExitStack() as stack:
        clickhouse = stack.enter_context(EmbeddedClickHouse(ClickHouseParams(data=folder / "clickhouse")))
        kafka = stack.enter_context(EmbeddedKafka(KafkaParams(data=data), security))
        login = BrokerLogin(data, ca.file)
        lines = configuration(folder, clickhouse, f"http://127.0.0.1:{alerts}", policy(folder))
        identity = [f"{name} = {json.dumps(value)}" for name, value in login.settings().items()]
        config = write(folder / "railsight.toml", "[kafka]", f'bootstrap = "{kafka.bootstrap}"', *identity, *lines)
        stages = dict.fromkeys(STAGES, config)
        for stage in STAGES if certificates else ():
            cert_file, key_file = ca.signed(f"railsight-{stage}")
            own = {"bootstrap": f"127.0.0.1:{mutual}", "tls": True, "ca_file": str(ca.file)}
            own |= {"cert_file": str(cert_file), "key_file": str(key_file)}
            identity = [f"{name} = {json.dumps(value)}" for name, value in own.items()]
            stages[stage] = write(folder / f"{stage}.toml", "[kafka]", *identity, *lines)
        settings = load(config, collector_params(), {})
        asyncio.run(create_users(kafka, login, accesses(settings, collector_access(settings))))
        stack.enter_context(alertmanager(folder, alerts))
        yield WholePath(folder, kafka, clickhouse, f"http://127.0.0.1:{alerts}", config, stages)


def policy(folder: Path) -> Path:
    """Write a policy that drains a link at its first flap: the first episode may be over when the parts are ready."""
    rule = '[[rules]]\nname = "flap"\ncondition = "link/flap"\nladder = [{ action = "DRAIN_LINK" }]'
    return write(folder / "policy.toml", '[reversals]\nDRAIN_LINK = "RESTORE_LINK"', rule)


def configuration(folder: Path, clickhouse: EmbeddedClickHouse, alertmanager: str, policy: Path) -> list[str]:
    """Return the lines of the configuration that all parts share, after those of [kafka]."""
    return [
        "telemetry_partitions = 2", "pod_partitions = 1",
        "[identity]", 'mode = "require"', *identity_files(folder),
        "[store]", f'url = "{clickhouse.url}"', f'password_file = "{clickhouse.password_file}"',
        "[runtime]", f'data = "{folder / "faust"}"',
        "\n".join(acting.toml_lines()).replace("[decide]", f'[decide]\npolicy = "{policy}"'),
        "[collect.sim.shape]", "pods = 1", 'planes_at = "nics"',
        "[collect.sim]", 'scenario = "repairs"', f'folder = "{folder / "sim"}"', "faults_s = 300",
        'interfaces = ["gnmi"]',
        "[collect.gnmi]", f'targets_file = "{folder / "sim/targets.json"}"', "cadence_s = 2",
        "[collect.bridge]", f'topics = ["{LINES}"]', 'start = "earliest"',
        "[notify]", f'alertmanagers = ["{alertmanager}"]',
    ]  # fmt: skip


def identity_files(folder: Path) -> list[str]:
    """Write a secret, and keys for the collectors of the simulated fabric and for the bridge; return the settings."""
    secret = new_secret()
    keys = [secret.key_of(name).line for name in (f"bridge/{BRIDGED}", "collector/*")]
    files = {"secret_file": write(folder / "secrets", secret.value.hex()), "key_file": write(folder / "keys", *keys)}
    return [f'{name} = "{path}"' for name, path in files.items()]


@contextmanager
def alertmanager(folder: Path, port: int) -> Iterator[None]:
    """Run Debian's Alertmanager; skip where it is not installed."""
    config = {"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
    options = {
        "config.file": folder / "alertmanager.yml", "storage.path": folder / "alertmanager",
        "web.listen-address": f"127.0.0.1:{port}", "cluster.listen-address": "",
    }  # fmt: skip
    command = [program("prometheus-alertmanager", "alertmanager"), *(f"--{k}={v}" for k, v in options.items())]
    with running(folder, "alertmanager", command):
        yield


class LoggedProcess(WatchedProcess):
    """A process with the path of its log."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        super().__init__(tuple(command), log)
        self.log = log


@contextmanager
def running(folder: Path, name: str, command: Sequence[str]) -> Iterator[LoggedProcess]:
    """Run a process whose log is a file of its name."""
    process = LoggedProcess(command, folder / f"{name}.log")
    try:
        yield process
    finally:
        process.kill()


def parts(path: WholePath) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the command of each part."""
    config = str(path.config)
    yield "sim", railsight_command("collect", "sim", "--config", config)
    for stage, own in path.stage_configs.items():
        yield stage, railsight_command("process", stage, "--config", str(own))
    for name in ("persist", "notify"):
        yield name, railsight_command(name, "--config", config)
    for name in ("gnmi", "bridge"):
        yield name, railsight_command("collect", name, "--config", config)


def automation(path: WholePath) -> Sequence[str]:
    """Write the configuration of the reference automation, and return its command."""
    login = BrokerLogin(path.kafka.data, path.folder / "pki/ca.pem")
    settings = load(path.config, None, {}).kafka
    part = acting.automation_part(path.folder, settings.of_part(AUTOMATION), "sim/targets.json")
    own = path.folder / acting.AUTOMATION_CONFIG
    own.write_text(own.read_text().replace("[kafka]\n", f'[kafka]\ntls = true\nca = "{login.ca}"\n'))
    return part.command


async def until(what: str, condition: Callable[[], Awaitable[Any]], processes: Iterable[LoggedProcess] = ()) -> Any:
    """Return the first true result of a condition; fail if a process ends."""
    deadline_s = time.monotonic() + _BOUND_S
    while time.monotonic() < deadline_s:
        ended = [process.log for process in processes if process.exit_code is not None]
        assert not ended, "".join(f"{log.name}: {log.read_text(errors='replace')[-2000:]}\n" for log in ended)
        with suppress(OSError, KafkaError):
            if result := await condition():
                return result
        await asyncio.sleep(0.5)
    raise AssertionError(f"not within {_BOUND_S:g} s: {what}")


async def is_denied(path: WholePath) -> None:
    """Write what the collector may not write: the broker's log must have a line of it, or it proves nothing."""
    settings = load(path.config, None, {}).kafka.of_part(COLLECTOR)
    async with AIOKafkaProducer(**settings.client_options()) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait(CONTROLS.name, b"x")

    async def is_logged() -> bool:
        return any("User:railsight-collector is Denied" in line for line in path.denials())

    await until("the denial in the broker's log", is_logged)


async def create_topic_of_lines(path: WholePath) -> None:
    """Create the topic of another collector."""
    admin = AIOKafkaAdminClient(**path.kafka.client_options())
    await admin.start()
    await admin.create_topics([NewTopic(LINES, 1, 1)])
    await admin.close()


async def send_lines(path: WholePath) -> None:
    """Write what gnmic would write until cancelled: a device that becomes silent holds the watermark of `decide`."""
    tags = f"source={BRIDGED},name=Eth1,path=/interfaces/interface/state/counters"
    async with AIOKafkaProducer(**path.kafka.client_options()) as producer:
        for number in itertools.count():
            value = f"ifcounters,{tags} in_octets={number}u {time.time_ns()}".encode()
            await producer.send_and_wait(LINES, value, partition=0)
            await asyncio.sleep(2)


async def outcomes(path: WholePath) -> set[str]:
    """Return the outcomes that the automation has answered."""
    at = TopicPartition(REMEDIATION_RESULTS.name, 0)
    consumer = AIOKafkaConsumer(**path.kafka.client_options(), auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([at])
        end, found = (await consumer.end_offsets([at]))[at], set()
        while await consumer.position(at) < end:
            records = (await consumer.getmany(at, timeout_ms=1000)).get(at, ())
            found |= {json.loads(record.value)["outcome"] for record in records}
        return found
    finally:
        await consumer.stop()


@pytest.mark.parametrize("certificates", [False, True], ids=["logins", "certificates"])
def test_a_fault_is_found_stored_paged_and_answered_and_nothing_is_denied(tmp_path: Path, certificates: bool) -> None:
    """Every part has its own principal and the ACLs of `railsight acl`; Faust also by client certificates."""
    with started(tmp_path, certificates=certificates) as path:
        asyncio.run(create_topic_of_lines(path))
        for name in ("topics", "migrate"):
            with running(tmp_path, name, railsight_command(name, "--config", str(path.config))) as setup:
                assert setup.wait(120) == 0, (tmp_path / f"{name}.log").read_text()
        asyncio.run(is_denied(path))
        before = len(path.denials())
        with ExitStack() as stack:
            asyncio.run(check_path(path, stack))
        assert path.denials()[before:] == []
        logs = {log.name: log.read_text(errors="replace") for log in tmp_path.glob("*.log")}
        assert not [name for name, text in logs.items() if "AuthorizationFailed" in text or "does not permit" in text]


async def check_path(path: WholePath, stack: ExitStack) -> None:
    """Start all parts, and wait for the finding in ClickHouse, its alert, the answer, and the bridged reading."""
    simulation, *others = parts(path)
    processes = [stack.enter_context(running(path.folder, *simulation))]
    targets = path.folder / "sim/targets.json"

    async def has_targets() -> bool:
        return targets.exists()

    await until("the simulated fabric", has_targets, processes)
    processes += [stack.enter_context(running(path.folder, *part)) for part in others]
    processes.append(stack.enter_context(running(path.folder, "automation", automation(path))))

    async def is_alerted() -> bool:
        found = {row[0] for row in path.query("SELECT id FROM findings WHERE condition IN ('link_flap', 'link_down')")}
        return bool(found & path.alerts())

    async def is_answered() -> bool:
        return "DONE" in await outcomes(path)

    async def is_bridged() -> bool:
        return bool(path.query(f"SELECT device FROM samples WHERE device = '{BRIDGED}' LIMIT 1"))

    async def is_requested() -> bool:
        return bool(path.query("SELECT device FROM events WHERE kind = 'watch' LIMIT 1"))

    async with run_beside(send_lines(path)):
        await until("a finding in ClickHouse with an alert", is_alerted, processes)
        await until("an answer of the automation", is_answered, processes)
        await until("the reading of the bridge in ClickHouse", is_bridged, processes)
        await until("a request of `decide` for readings, with a MAC", is_requested, processes)
    assert path.query("SELECT reason FROM rejected LIMIT 5") == []
