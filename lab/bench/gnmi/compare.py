"""Compares the CPU of reading a fast switch by gNMI between clients, in one run.

All clients read the same target, which runs in its own process; each client runs in its own process too, several times
in turn with the others. Its cheapest run counts, because disturbances only ever add CPU.
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson

from lab.bench.collector_costs import Cost
from lab.bench.gnmi.load import LEAVES, PORTS, UPDATES
from streams.wire.errors import Retry

LOAD = f"{PORTS} ports, {len(LEAVES)} counters, PROTO"
_OURS, _ENCODED = "railsight, to Kafka", "railsight, to encoded messages"
_PLAIN, _BYTES = "plain, walking paths", "plain, bytes not decoded"
_TIMEOUT_S = 300.0


@contextlib.contextmanager
def target(updates: int) -> Iterator[int]:
    """Run a switch that sends at least so many updates, and yield its port. Raises Retry."""
    # One more round, because a reading is emitted when the next begins.
    command = [sys.executable, "-m", "lab.bench.gnmi.load", str(-(-updates // UPDATES) + 2)]
    with _running(command) as line:
        yield int(line)


@contextlib.contextmanager
def kafka(bootstrap: str) -> Iterator[str]:
    """Yield the address of Kafka; without one, run a broker in a temporary folder. Raises Retry."""
    if bootstrap:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory(prefix="railsight-bench-") as folder:
        command = [*_railsight("broker"), "--data", str(Path(folder) / "kafka"), "--security", "none"]
        with _running(command) as line:
            subprocess.run([*_railsight("topics"), "--bootstrap", line], check=True, capture_output=True, timeout=60)
            yield line


def _railsight(command: str) -> list[str]:
    return [sys.executable, "-m", "streams.cli.main", command]


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line:
            raise Retry(f"{command[2]} did not start")
        yield line
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


def compare(updates: int, times: int, bootstrap: str = "") -> list[Cost]:
    """Return the cost of each client for so many updates, the collector to Kafka first. Raises Retry."""
    found: dict[str, list[Cost]] = {}
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(target(updates))
        skipped, address = "", ""
        try:
            address = stack.enter_context(kafka(bootstrap))
        except (Retry, subprocess.SubprocessError) as error:
            skipped = f"no Kafka: {error}"
        for _ in range(times):
            if address:
                found.setdefault(_OURS, []).append(_measured(_OURS, "ours", port, updates, address))
            for name, client in ((_ENCODED, "ours"), (_PLAIN, "plain"), (_BYTES, "bytes")):
                found.setdefault(name, []).append(_measured(name, client, port, updates))
    best = [min(costs, key=lambda cost: cost.cpu_s / cost.count) for costs in found.values()]
    return best if not skipped else [Cost(LOAD, _OURS, skipped=skipped), *best]


def _measured(name: str, client: str, port: int, updates: int, bootstrap: str = "") -> Cost:
    command = [sys.executable, "-m", "lab.bench.gnmi.clients", client, str(port), str(updates)]
    ran = subprocess.run([*command, bootstrap], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if ran.returncode:
        raise Retry(f"{name}: {ran.stderr.strip().splitlines()[-1:]}")
    cost = orjson.loads(ran.stdout.splitlines()[-1])
    return Cost(LOAD, name, cost["count"], cost["cpu_s"])
