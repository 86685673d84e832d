"""CPU of the OTLP collector in seconds per million points, from the socket to encoded messages, without Kafka.

A second process sends what a Cumulus switch with 64 ports sends: gauges of doubles without a start time, by gRPC.
"""

import asyncio
import os
import resource
import sys
from typing import Any

import grpc

from collectors.core.context import CollectorContext
from collectors.core.once import NullPublisher
from collectors.core.spec import pin_to_cpu
from collectors.otlp.collector import collect
from collectors.otlp.params import Params
from collectors.otlp.server import METHOD
from collectors.otlp.tables import tables
from lab.constants import params_of
from streams.wire.event_loop import new_loop
from streams.wire.otlp_messages import Series, encode_metrics

PORTS, READINGS = 64, 400
_FIRST_NS = 1_800_000_000 * 10**9
_MOST_PER_S = 10**9
"""The limit of a device's points in a second, which must not slow the measurement."""


def names() -> list[str]:
    """Return the metrics of a port whose only attribute is the port."""
    table = next(table for table in tables() if any("if_out_octets" in rule.name[0] for rule in table.rule))
    return [
        rule.name[0] for rule in table.rule if not (rule.lane or rule.where or rule.row or rule.unit or rule.states)
    ]


def request(reading: int) -> bytes:
    """Return the request of one second."""
    value = float(1 + reading)
    points = [({"interface": f"swp{port}"}, value) for port in range(PORTS)]
    series = (Series(name, "", "", is_sum=False, points=points) for name in names())
    return encode_metrics({}, series, 0, _FIRST_NS + reading * 10**9)


def send(address: str, compression: grpc.Compression) -> None:
    """Send all requests, one after the other."""
    requests = [request(reading) for reading in range(READINGS)]
    with grpc.insecure_channel(address, compression=compression) as channel:
        call: Any = channel.unary_unary(METHOD)
        for body in requests:
            call(body, wait_for_ready=True, timeout=60)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(compression: str) -> float:
    """Return the CPU seconds per million points."""
    ports: asyncio.Future[dict[str, int]] = asyncio.get_running_loop().create_future()
    target = {"name": "leaf1", "addresses": ["127.0.0.1"]}
    settings = {"listen": "127.0.0.1:0", "targets": [target], "max_updates_per_s": _MOST_PER_S}
    context = CollectorContext(NullPublisher(), "bench")
    work = asyncio.ensure_future(collect(params_of(Params, settings), context, ports.set_result))
    try:
        address = f"127.0.0.1:{(await ports)['grpc']}"
        before_s = _cpu_s()
        sender = await asyncio.create_subprocess_exec(
            "taskset", "--cpu-list", f"0-{(os.cpu_count() or 1) - 1}", sys.executable, "-m", __spec__.name, address,
            compression,
        )  # fmt: skip
        if await sender.wait():
            raise SystemExit("the sender failed")
        used_s = _cpu_s() - before_s
    finally:
        work.cancel()
        await asyncio.wait({work})
    stored = context.metrics.value("updates", "leaf1")
    assert stored == PORTS * READINGS * len(names()), stored
    return used_s / stored * 1e6


def main() -> None:
    """Print the costs with and without gzip."""
    if len(sys.argv) == 3:
        send(sys.argv[1], grpc.Compression[sys.argv[2]])
        return
    pin_to_cpu("one", "otlp")  # as `cpu = "one"` of the collector
    for compression in ("NoCompression", "Gzip"):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            cost_s = runner.run(measure(compression))
        sys.stdout.write(f"{compression}: {cost_s:.2f} CPU s per million points\n")


if __name__ == "__main__":
    main()
