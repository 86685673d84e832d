"""Tests that the shipped jobs export every metric of the shipped rules, with a real Prometheus, stage and collector."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.wire.topics import SAMPLES
from tests.fixtures import automation_process
from tests.fixtures.external_programs import program
from tests.fixtures.ports import free_port
from tests.fixtures.slurm import end_process

pytestmark = pytest.mark.peer("prometheus")

FOLDER = Path(__file__).parents[3] / "deploy/prometheus"


@contextmanager
def running(log: Path, *command: str) -> Iterator[None]:
    """Run a program until the end of the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=dict(os.environ))
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


def config_for(addresses: dict[str, str]) -> dict[str, Any]:
    """Return the shipped configuration with local addresses, without what does not run here, evaluated each second."""
    config = dict(yaml.safe_load((FOLDER / "prometheus.yml").read_text()))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(FOLDER / "rules.yml")]
    del config["alerting"]
    for job in config["scrape_configs"]:
        for static in job["static_configs"]:
            static["targets"] = [addresses[target] for target in static["targets"] if target in addresses]
    return config


def ask(url: str, path: str, **query: str) -> Any:
    """Return the data of one answer of Prometheus's API; None while it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=5) as answer:
            return json.load(answer)["data"]
    except OSError:
        return None


def until(condition: Any, within_s: float, log: Path) -> None:
    """Wait for a condition; fail after the timeout with the log's end."""
    give_up = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up, log.read_text()[-3000:]
        time.sleep(0.2)


async def send_unreadable(bootstrap: str) -> None:
    """Send a message that measure rejects."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(SAMPLES.name, b"not protobuf", partition=0)


def configured(folder: Path, bootstrap: str, port: int) -> Path:
    """Return a folder with the configuration of an automation that has no devices."""
    (folder / "automation").mkdir()
    (folder / "automation/targets.json").write_text("[]")
    (folder / "automation/automation.toml").write_text(
        f'actor = "netbot"\njournal = "journal.jsonl"\n[kafka]\nbootstrap = "{bootstrap}"\n'
        f'[status]\nport = {port}\n[gnmi]\ntargets = "targets.json"\n[links]\n'
    )
    return folder / "automation"


def test_every_metric_of_the_rules_is_scraped_and_a_first_rejected_message_alerts(tmp_path: Path) -> None:
    """The metrics are looked up by job; the reject is the first count of its series."""
    rules = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"][0]["rules"]
    metrics = {name for rule in rules for name in re.findall(r"\brailsight_\w+", rule["expr"])}
    ports = {name: free_port() for name in ("measure:9100", "collect-gnmi:9100", "automation:9100")}
    addresses = {target: f"127.0.0.1:{port}" for target, port in ports.items()}
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.safe_dump(config_for(addresses)))
    targets = tmp_path / "targets.json"
    targets.write_text(json.dumps([{"name": "leaf-1", "address": f"127.0.0.1:{free_port()}"}]))
    listen = f"127.0.0.1:{free_port()}"
    url = f"http://{listen}"
    railsight = (sys.executable, "-m", "streams.cli.main")
    with ExitStack() as stack:
        kafka = stack.enter_context(EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")))
        common = ("--bootstrap", kafka.bootstrap, "--metrics-port")
        measure, collector, server = (tmp_path / f"{name}.log" for name in ("measure", "collector", "prometheus"))
        subprocess.run([*railsight, "topics", "--bootstrap", kafka.bootstrap], check=True, timeout=60)
        stack.enter_context(running(measure, *railsight, "process", "measure", *common, str(ports["measure:9100"])))
        stack.enter_context(
            running(
                collector, *railsight, "collect", "gnmi", *common, str(ports["collect-gnmi:9100"]),
                "--targets", str(targets),
            )
        )  # fmt: skip
        automation = automation_process.start(configured(tmp_path, kafka.bootstrap, ports["automation:9100"]))
        stack.callback(end_process, automation)
        stack.enter_context(
            running(
                server, program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                f"--web.listen-address={listen}",
            )
        )  # fmt: skip

        def exported() -> set[str]:
            data = ask(url, "targets/metadata") or []
            jobs = ("railsight", "railsight-collectors", "railsight-automation")
            # OpenMetrics names a counter without the suffix of its samples.
            return {
                one["metric"] + ("_total" if one["type"] == "counter" else "")
                for one in data
                if one["target"]["job"] in jobs
            }

        until(lambda: metrics <= exported(), 60, measure)
        until(lambda: ask(url, "query", query='count(up{job=~"railsight.*"} == 1) == 3')["result"], 30, server)
        until(lambda: ask(url, "query", query="railsight_epoch")["result"], 60, measure)
        asyncio.run(send_unreadable(kafka.bootstrap))
        until(
            lambda: ask(url, "query", query='ALERTS{alertname="RailsightRejects",alertstate="firing"}')["result"],
            60, measure,
        )  # fmt: skip
