"""Measures the bridge's CPU from a peer's records to encoded Samples, in seconds per million values, by format.

python -m lab.bench.bridge_cost [--devices 16] [--ports 64] [--rounds 10] [--json]

A device has 64 ports of 24 counters, read every 10 s: gnmic writes a record per port with an event for each value;
Telegraf writes a record per port with a field for each. `ethtool` is a NIC with 2,000 statistics; only the 24 that
railsight collects count as values. No Kafka is involved. `floor` only parses the same records with orjson, or splits
them at their commas.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator

import orjson

from collectors.bridge.delivery import MessageIdentity
from collectors.bridge.devices import Devices
from collectors.bridge.fold import Gathered, PartitionFold, Position
from collectors.bridge.params import Format, Params
from collectors.bridge.points import Source
from collectors.core.metrics import CollectorMetrics
from collectors.kernel.signals import PHYSICAL

START_NS = 1_700_000_000 * 10**9
CADENCE_NS = 10 * 10**9
LEAVES = [
    *(f"state/counters/{way}-{name}" for name in ("octets", "pkts", "discards", "errors") for way in ("in", "out")),
    *(f"state/counters/{name}" for name in ("in-fcs-errors", "in-crc-error-pkts")),
    *(f"state/counters/{name}-transitions" for name in ("link", "interface", "carrier")),
    *(f"ethernet/state/counters/{name}" for name in ("in-crc-errors", "in-symbol-error", "in-mac-pause-frames")),
    *(f"ethernet/state/counters/{name}" for name in ("out-mac-pause-frames", "fec-corrected-blocks")),
    "ethernet/state/counters/fec-uncorrectable-blocks", "state/oper-status", "state/admin-status",
    "ethernet/state/port-speed", "ethernet/state/pre-fec-ber/instant", "ethernet/state/post-fec-ber/instant",
]  # fmt: skip
STATISTICS = [*list(PHYSICAL)[:24], *(f"rx{n}_xdp_redirect" for n in range(1976))]


def value(leaf: str, number: int) -> object:
    """Return a leaf's value as a device sends it."""
    if leaf.endswith("-status"):
        return "UP"
    return 10**12 + number if "counters" in leaf else "SPEED_400GB" if leaf.endswith("speed") else 1e-9


def gnmic(device: str, port: str, at_ns: int, number: int) -> bytes:
    """Return one notification of a port as gnmic's kafka output writes it."""
    tags = {"interface_name": port, "source": f"{device}:57400", "subscription-name": "ports"}
    return orjson.dumps(
        [
            {"name": "ports", "timestamp": at_ns, "tags": tags,
             "values": {f"/interfaces/interface/{leaf}": str(found) if type(found) is int else found}}
            for leaf in LEAVES
            for found in [value(leaf, number)]
        ]
    )  # fmt: skip


def telegraf(device: str, port: str, at_ns: int, number: int) -> bytes:
    """Return one metric of Telegraf's gnmi input as JSON."""
    fields = {leaf.replace("-", "_"): value(leaf, number) for leaf in LEAVES}
    tags = {"host": "collector1", "name": port, "path": "/interfaces/interface", "source": device}
    return orjson.dumps({"fields": fields, "name": "ports", "tags": tags, "timestamp": at_ns // 10**9})


def influx(device: str, port: str, at_ns: int, number: int) -> bytes:
    """Return the same metric in line protocol."""

    def text(found: object) -> str:
        return f"{found}i" if type(found) is int else f'"{found}"' if isinstance(found, str) else repr(found)

    fields = ",".join(f"{leaf.replace('-', '_')}={text(value(leaf, number))}" for leaf in LEAVES)
    return f"ports,host=c1,name={port},path=/interfaces/interface,source={device} {fields} {at_ns}\n".encode()


def ethtool(device: str, port: str, at_ns: int, number: int) -> bytes:
    """Return a NIC with many statistics in line protocol."""
    fields = ",".join(f"{name}={1 if name in {'link', 'interface_up'} else number}i" for name in STATISTICS)
    return f"ethtool,driver=mlx5_core,host={device},interface={port} {fields} {at_ns}\n".encode()


Write = Callable[[str, str, int, int], bytes]
FORMATS: dict[str, tuple[Write, Format]] = {
    "gnmic": (gnmic, "gnmic"),
    "telegraf json": (telegraf, "telegraf-json"),
    "telegraf influx": (influx, "telegraf-influx"),
    "ethtool influx": (ethtool, "telegraf-influx"),
}


def records(write: Write, devices: int, ports: int, rounds: int) -> Iterator[Source]:
    """Yield the records of every device's ports for each round, device by device."""
    offset = 0
    for turn in range(rounds):
        for number in range(devices):
            at_ns = START_NS + turn * CADENCE_NS + number * 50_000_000
            for port in range(ports):
                made = write(f"leaf{number}", f"Ethernet{port}/1", at_ns + port * 100_000, turn * 1000 + port)
                yield Source(offset, at_ns, made)
                offset += 1


def bridged(form: Format, load: list[Source]) -> tuple[float, int, int]:
    """Return (CPU seconds, messages, bytes) for the conversion of records to encoded messages."""
    params = Params()
    fold = PartitionFold(Devices(params, CollectorMetrics()), params, form, Position(0, 1))
    stamp = MessageIdentity("bench", "peers", 0, 1)
    messages = size = 0
    began = time.process_time()
    for record in load:
        for result in fold.add(record, record.at_ns):
            messages += isinstance(result, Gathered)
            size += len(stamp.record(result, record.at_ns)[0].value or b"")
    return time.process_time() - began, messages, size


def floor(form: Format, load: list[Source]) -> float:
    """Return the CPU seconds of only parsing or splitting the records."""
    began = time.process_time()
    for record in load:
        if form == "telegraf-influx":
            record.value.decode().split(",")
        else:
            orjson.loads(record.value)
    return time.process_time() - began


def main() -> None:
    """Measure and print the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=16)
    parser.add_argument("--ports", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = {}
    for name, (write, form) in FORMATS.items():
        ports = given.ports // 8 if write is ethtool else given.ports
        load = list(records(write, given.devices, ports, given.rounds))
        values = len(load) * 24
        seconds, messages, size = bridged(form, load)
        found[name] = {
            "s_a_million": seconds / values * 1e6,
            "floor_s_a_million": floor(form, load) / values * 1e6,
            "values": values,
            "values_a_message": values / max(1, messages),
            "bytes_a_value": size / values,
        }
    if given.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for name, result in found.items():
        sys.stdout.write(f"{name:>16} " + " ".join(f"{key} {number:.2f}" for key, number in result.items()) + "\n")


if __name__ == "__main__":
    main()
