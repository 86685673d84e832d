"""An hour of a leaf of a production cluster, 95 ports each half second: with a gap of 253 s and no known fault."""

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from streams.fabric.catalogue import Metric
from streams.fabric.inventory import Device, Inventory, Link
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Condition, Finding, RowKind, Samples, Severity, Source, Status, Table
from tests.recordings import DATA
from tests.worlds.small_world import findings, play

FOLDER = DATA / "timeseries/a100-roce-leaf"
LEAF = "NH-DC-NM129-B03-ROCE-Leaf-1.GPU.S9825"
MS = 10**6
COUNTED = {
    Metric.RX_PACKETS: "in_pkts", Metric.RX_BYTES: "in_octets",
    Metric.TX_PACKETS: "out_pkts", Metric.TX_BYTES: "out_octets",
}  # fmt: skip
UPLINKS = range(33, 63)
"""400G ports that carry traffic; three to each of the ten spines."""

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no recording in {FOLDER}; set RAILSIGHT_DATA to its folder"
)


@cache
def hour() -> list[Samples]:
    """Return every reading; the recording has deltas, so each port's are summed up."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * len(COUNTED))
    rounds: dict[int, dict[str, list[int]]] = defaultdict(dict)
    with gzip.open(next(FOLDER.glob("leaf1_*.csv.gz")), "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            own = sums[row["port"]]
            own[:] = (total + int(row[name] or 0) for total, name in zip(own, COUNTED.values(), strict=True))
            rounds[int(row["ts_utc_ms"])][row["port"]] = list(own)
    return [_reading(number, at_ms * MS, ports) for number, (at_ms, ports) in enumerate(sorted(rounds.items()))]


def _reading(number: int, at_ns: int, ports: dict[str, list[int]]) -> Samples:
    counters = np.array(list(ports.values()), np.uint64).T
    none = Table((), (), np.empty((0, len(ports))))
    return Samples(
        LEAF, Source.SOURCE_GNMI, "c", 1, number, at_ns, at_ns, 1, RowKind.ROW_KIND_PORT, tuple(ports), 0,
        Table(tuple(COUNTED), (NO_INDEX,) * len(COUNTED), counters), none,
    )  # fmt: skip


def _links() -> Iterator[Link]:
    with (FOLDER / "cluster_topology.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["switchname"] == LEAF:
                yield Link(
                    row["sysname"], row["nicname"], LEAF, row["accessport"], "host-link", rail=0, speed_bps=200 * 10**9
                )
    for number in UPLINKS:
        spine = f"Spine-{(number - UPLINKS[0]) // 3 + 1}"
        yield Link(
            LEAF, f"FourHundredGigE1/0/{number}", spine, f"Leaf-1/{number}", "fabric-link", speed_bps=400 * 10**9
        )


@cache
def top() -> Topology:
    """Return the leaf with its sixty hosts and ten spines, which are not read themselves."""
    links = tuple(_links())
    hosts = {link.a_device for link in links if link.role == "host-link"}
    spines = {link.z_device for link in links if link.role == "fabric-link"}
    devices = [Device(LEAF, "switch", "T0", pod="pod1")]
    devices += [Device(host, "host", "host", pod="pod1", gpus=8) for host in sorted(hosts)]
    devices += [Device(spine, "switch", "T1") for spine in sorted(spines)]
    return Topology(Inventory(devices=tuple(devices), links=links))


@pytest.mark.parametrize("is_known", [True, False], ids=["with its inventory", "of an unknown device"])
def test_only_the_gap_is_found(is_known: bool) -> None:
    """telemetry/stale from the last reading before it to the first after it; all else is INFO at most."""
    outputs = play(hour(), top() if is_known else Topology(Inventory()))
    found = [f for f in findings(outputs) if f.status is not Status.RETRACTED]
    (stale,) = [f for f in found if f.severity > Severity.INFO]
    assert (stale.condition, stale.subject.id, stale.final) == (Condition.TELEMETRY_STALE, f"device:{LEAF}", True)
    assert stale.started_at_ns == 1716480001417 * MS
    assert stale.resolved_at_ns == 1716480254359 * MS
    assert stale.evidence[0].observed == pytest.approx(252.942)
    ever = {f.id for f in outputs if isinstance(f, Finding) and f.severity > Severity.INFO}
    assert ever == {stale.id}
