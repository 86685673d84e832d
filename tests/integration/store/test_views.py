"""Tests the figures of the views: two hosts with two rails below one leaf, a spine, and a job on host-0."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from streams.store.queries.jobs import RailBandwidth, rail_bandwidth
from tests.integration.fixtures_clickhouse import ClickHouse as Server
from tests.integration.store.tables import Row, Tables

DAY = str(datetime.fromtimestamp(time.time() - 86_400, UTC).date())
"""Yesterday: rows that arrived long ago expire at once."""

WINDOW = f"since = '{DAY} 10:00:00', until = '{DAY} 12:00:00'"
LINK = "link:host-0/eth0--leaf-0/p0"
GBPS = 10**9


def at(clock: str) -> str:
    """Return a time of the day of these tests."""
    return f"{DAY} {clock}"


def link(a_device: str, a_port: str, z_device: str, z_port: str, role: str, rail: int | None) -> Row:
    return {
        "digest": "d", "effective_at": at("00:00:00"), "id": f"link:{a_device}/{a_port}--{z_device}/{z_port}",
        "a_device": a_device, "a_port": a_port, "z_device": z_device, "z_port": z_port, "role": role, "rail": rail,
        "pod": "pod-0", "speed_bps": 100 * GBPS,
    }  # fmt: skip


def device(name: str, kind: str, gpus: int) -> Row:
    return {"digest": "d", "effective_at": at("00:00:00"), "name": name, "kind": kind, "pod": "pod-0", "gpus": gpus}


def minute(device: str, row: str, clock: str, gbps: float, **others: Any) -> Row:
    """Return a minute of a port that sends and receives at a rate."""
    grown = int(gbps * GBPS * 60 / 8)
    return {
        "device": device, "row": row, "row_kind": "port", "source": "nic", "bucket": at(clock), "readings": 6,
        "observed_s": 60, "tx_bytes_increase": grown, "rx_bytes_increase": grown, "arrived_at": at(clock),
    } | others  # fmt: skip


def finding(name: str, subject: str, started: str, resolved: str | None, **others: Any) -> Row:
    a, _, z = subject.removeprefix("link:").partition("--")
    return {
        "id": name, "revision": 1, "detector": "link/flap", "status": "open" if resolved is None else "resolved",
        "severity": "warning", "subject_id": subject, "a_device": a.split("/")[0], "a_port": a.split("/")[1],
        "z_device": z.split("/")[0], "z_port": z.split("/")[1], "pod": "pod-0", "started_at": at(started),
        "resolved_at": resolved and at(resolved), "arrived_at": at(started),
    } | others  # fmt: skip


INVENTORY: dict[str, list[Row]] = {
    "inventory_devices": [
        device("host-0", "host", 8), device("host-1", "host", 8), device("leaf-0", "switch", 0),
        device("spine-0", "switch", 0),
    ],
    "inventory_links": [
        link("host-0", "eth0", "leaf-0", "p0", "host-link", 0),
        link("host-0", "eth1", "leaf-0", "p1", "host-link", 1),
        link("host-1", "eth0", "leaf-0", "p2", "host-link", 0),
        link("host-1", "eth1", "leaf-0", "p3", "host-link", 1),
        link("leaf-0", "up0", "spine-0", "q0", "fabric-link", None),
    ],
    "inventory_jobs": [
        {"digest": "d", "job": "train", "device": "host-0", "start": at("10:01:00"), "end": None, "kafka_offset": 1}
    ],
    "jobs": [
        {"job": "train", "device": "host-0", "start": at("10:01:00"), "end": at("11:00:00"), "kafka_offset": 1}
    ],
    # The NIC calls the port eth0 of the inventory mlx5_0.
    "facts": [
        {
            "device": "host-0", "source": "nic", "observed_at": at(clock), "components.name": ["mlx5_0", "sfp0"],
            "components.kind": ["nic", "transceiver"], "components.part_number": ["CX7", "OPTIC"],
            "components.serial": ["1", "2"], "components.firmware": ["28.39", ""],
            "components.alias": [["eth0"], ["eth0"]], "components.limits": ["", ""], "neighbors.port": [],
            "neighbors.remote_device": [], "neighbors.remote_port": [],
        }
        for clock in ("09:00:00", "11:00:00")
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(clickhouse: Server) -> Iterator[Callable[[dict[str, list[Row]]], Tables]]:
    """Return a function that makes a database with the inventory and the given rows."""
    made: list[str] = []

    def fill(rows: dict[str, list[Row]]) -> Tables:
        name = f"views_{len(made)}"
        clickhouse.execute(f"CREATE DATABASE {name}")
        made.append(name)
        tables = Tables(clickhouse, name)
        for table, those in (INVENTORY | rows).items():
            tables.fill(table, [{"arrived_at": at("09:00:00")} | row for row in those])
        return tables

    yield fill
    for name in made:
        clickhouse.execute(f"DROP DATABASE {name} SYNC")


Fill = Callable[[dict[str, list[Row]]], Tables]


def test_ports_have_their_peers_and_all_their_names(filled: Fill) -> None:
    """A port of the inventory is found by the name that a source uses."""
    tables = filled({})
    assert tables.rows(
        "SELECT end, peer_device, peer_port, rail FROM ports WHERE device = 'leaf-0' AND port = 'p2'"
    ) == [("z", "host-1", "eth0", 0)]
    assert tables.rows("SELECT row FROM port_names WHERE device = 'host-0' AND port = 'eth0' ORDER BY row") == [
        ("eth0",), ("mlx5_0",), ("sfp0",),
    ]  # fmt: skip
    assert tables.rows("SELECT job, device, toString(end) FROM job_hosts") == [
        ("train", "host-0", f"{DAY} 11:00:00.000000000")
    ]


def test_a_rate_knows_resets_and_absence(filled: Fill) -> None:
    """The reading after a reset or another boot has no rate; a missing value leaves no gap in the growth."""

    def reading(clock: str, value: int | None, boot: int = 1) -> Row:
        return {
            "device": "host-0", "source": "nic", "row_kind": "port", "row": "mlx5_0", "sampled_at": at(clock),
            "boot_id": boot, "rx_bytes": value, "arrived_at": at(clock),
        }  # fmt: skip

    readings = [
        reading("10:00:00", 1000), reading("10:00:10", 1500), reading("10:00:20", None), reading("10:00:30", 2500),
        reading("10:00:40", 10), reading("10:00:50", 110), reading("10:01:00", 500, boot=2),
        reading("10:01:10", 510, boot=2),
    ]  # fmt: skip
    lanes = [
        {
            "device": "host-0", "source": "nic", "row_kind": "port", "row": "mlx5_0", "metric": "pfc_rx_frames",
            "index": lane, "sampled_at": at(clock), "counter": value, "arrived_at": at(clock),
        }
        for lane, values in ((3, (5, 25)), (4, (9, 1)))
        for clock, value in zip(("10:00:00", "10:00:10"), values, strict=True)
    ]  # fmt: skip
    tables = filled({"samples": readings, "sample_lanes": lanes})
    found = tables.rows(
        "SELECT value, seconds, increase, rate, is_reset FROM"
        f" counter_rates(device = 'host-0', port = 'eth0', metric = 'rx_bytes', {WINDOW})"
    )
    assert found == [
        (1000, None, None, None, False), (1500, 10, 500, 50, False), (2500, 20, 1000, 50, False),
        (10, 10, None, None, True), (110, 10, 100, 10, False), (500, 10, None, None, True), (510, 10, 10, 1, False),
    ]  # fmt: skip
    by_lane = tables.rows(
        "SELECT `index`, value, rate, is_reset FROM"
        f" lane_rates(device = 'host-0', port = 'eth0', metric = 'pfc_rx_frames', {WINDOW}) WHERE seconds IS NOT NULL"
    )
    assert by_lane == [(3, 25, 2, False), (4, 1, None, True)]


@pytest.mark.parametrize("size", ["1m", "1h"])
def test_both_ends_of_a_link_stand_side_by_side(filled: Fill, size: str) -> None:
    """Each end has its own figures, and an end that was not read has none."""
    rows = [
        minute("host-0", "mlx5_0", "10:00:00", 40, rx_errors_increase=3, oper_up_avg=1),
        minute("leaf-0", "p0", "10:00:00", 41, pre_fec_ber_max=1e-8),
        minute("leaf-0", "p0", "11:00:00", 5),
        minute("leaf-0", "p1", "10:00:00", 99),
    ]
    lanes = [
        {
            "device": "leaf-0", "row": "p0", "row_kind": "port", "source": "gnmi", "metric": "rx_power_dbm",
            "index": 2, "bucket": at("10:00:00"), "readings": 6, "value_min": -3, "value_max": -1, "value_avg": -2,
            "arrived_at": at("10:00:00"),
        }
    ]  # fmt: skip
    tables = filled({f"samples_{size}": rows, f"sample_lanes_{size}": lanes})
    found = tables.rows(
        "SELECT toHour(bucket), a_tx_bps, z_rx_bps, a_errors, z_errors, a_oper_up, round(z_pre_fec_ber * 1e8, 3)"
        f" FROM link_ends_{size}(link = '{LINK}', {WINDOW})"
    )
    assert found == [(10, 40 * GBPS, 41 * GBPS, 3, None, 1, 1), (11, None, 5 * GBPS, None, None, None, None)]
    by_lane = f"SELECT end, metric, `index`, value_min, value_max FROM link_lanes_{size}(link = '{LINK}', {WINDOW})"
    assert tables.rows(by_lane) == [("z", "rx_power_dbm", 2, -3, -1)]


def test_a_port_stands_against_its_peers(filled: Fill) -> None:
    """The median is that of the other ports of the same role: uplinks are no peers of host ports."""
    rows = [
        minute("leaf-0", port, "10:00:00", gbps)
        for port, gbps in (("p0", 10), ("p1", 40), ("p2", 50), ("p3", 60), ("up0", 400))
    ]
    tables = filled({"samples_1m": rows})
    found = tables.rows(
        f"SELECT port, peers, tx_peers_bps, tx_ratio FROM port_against_peers_1m(device = 'leaf-0', {WINDOW})"
    )
    assert found == [
        ("p0", 3, 50 * GBPS, 0.2), ("p1", 3, 50 * GBPS, 0.8), ("p2", 3, 40 * GBPS, 1.25), ("p3", 3, 40 * GBPS, 1.5),
        ("up0", 0, None, None),
    ]  # fmt: skip


def test_what_was_open_depends_on_what_was_known(filled: Fill) -> None:
    """A resolution that arrived later, with an earlier end, does not change what was known before."""
    first = finding("f", LINK, "10:00:00", None)
    resolved = finding("f", LINK, "10:00:00", "10:05:00", revision=2, arrived_at=at("10:10:00"))
    other = finding("g", LINK, "10:06:00", None)
    shadow = finding("s", LINK, "10:00:00", None, shadow=True)
    tables = filled({"findings": [first, resolved, other, shadow], "episodes": [
        {name: row[name] for name in row if name != "shadow"} for row in (first, resolved, other)
    ]})  # fmt: skip

    def open_at(table: str, clock: str, known: str) -> list[str]:
        query = f"SELECT id FROM open_{table}_at(at = '{at(clock)}', known_at = '{at(known)}')"
        return [row[0] for row in tables.rows(query)]

    for table in ("findings", "episodes"):
        assert open_at(table, "10:07:00", "10:07:00") == ["f", "g"]
        assert open_at(table, "10:07:00", "10:10:00") == ["g"]
        assert open_at(table, "10:04:00", "10:10:00") == ["f"]
        assert open_at(table, "10:04:00", "09:59:00") == []


def test_repeat_offenders_and_failures_of_parts(filled: Fill) -> None:
    """Two of three findings are in the time and at the same link; the third is explained by another."""
    tables = filled({"findings": [
        finding("f1", LINK, "10:00:00", "10:30:00"),
        finding("f2", LINK, "11:00:00", None, detector="link/down"),
        finding("f3", LINK, "11:10:00", None, parent_id="f2"),
        finding("f4", "link:host-1/eth0--leaf-0/p2", "10:00:00", "10:30:00"),
    ]})  # fmt: skip
    offenders = f"repeat_offenders(until = '{at('12:00:00')}', days = 1)"
    assert tables.rows(f"SELECT subject_id, findings, detectors, open_now, affected_h FROM {offenders}") == [
        (LINK, 2, ["link/down", "link/flap"], 1, 1.5)
    ]
    # 10:00 to 11:00 of the facts' two hours is in the time; the failure at 11:00 is after the last Facts.
    mtbf = f"mtbf_by_part({WINDOW})"
    found = tables.rows(
        "SELECT kind, part_number, firmware, parts, part_hours, failures, mtbf_h, round(mtbf_low_h, 2),"
        f" round(mtbf_high_h, 1) FROM {mtbf} ORDER BY kind"
    )
    # The limits of one event in an hour: 2 / chi2(0.95, 4) = 0.211, 2 / chi2(0.05, 2) = 19.5.
    assert found == [
        ("nic", "CX7", "28.39", 1, 1, 1, 1, 0.21, 19.5), ("transceiver", "OPTIC", "", 1, 1, 1, 1, 0.21, 19.5),
    ]  # fmt: skip


@pytest.mark.parametrize("size", ["1m", "1h"])
def test_bandwidth_of_a_job_by_rail(filled: Fill, size: str) -> None:
    """Readings before the job's begin and of other hosts do not count; the speed is that of the inventory."""
    rows = [
        minute("host-0", "mlx5_0", "10:00:00", 99),
        minute("host-0", "mlx5_0", "10:01:00", 40),
        minute("host-0", "mlx5_0", "10:02:00", 60),
        minute("host-0", "eth1", "10:01:00", 10),
        minute("host-1", "eth0", "10:01:00", 80),
    ]
    tables = filled({f"samples_{size}": rows})
    found = tables.rows(
        "SELECT job, rail, ports, nominal_bps, tx_bps, delivered_ratio, slowest_device FROM"
        f" rail_bandwidth_{size}(job = 'train', {WINDOW})"
    )
    assert found == [
        ("train", 0, 1, 100 * GBPS, 50 * GBPS, 0.5, "host-0"), ("train", 1, 1, 100 * GBPS, 10 * GBPS, 0.1, "host-0"),
    ]  # fmt: skip


def test_the_verdict_on_a_job_has_its_bandwidth_by_rail(filled: Fill) -> None:
    """The query of `railsight job` reads the rollups by minute up to a day, and those by hour beyond it."""
    rows = [minute("host-0", "mlx5_0", "10:01:00", 40), minute("host-0", "eth1", "10:01:00", 10)]
    tables = filled({"samples_1m": rows, "samples_1h": [minute("host-0", "mlx5_0", "10:02:00", 20)]})
    begin_ns = int(datetime.fromisoformat(f"{DAY}T10:00:00+00:00").timestamp()) * 10**9
    assert rail_bandwidth(tables.client, "train", (begin_ns, begin_ns + 7200 * 10**9)) == [
        RailBandwidth(0, 1, 100e9, 0.4, "host-0", 0.4), RailBandwidth(1, 1, 100e9, 0.1, "host-0", 0.1),
    ]  # fmt: skip
    two_days = begin_ns - 86_400 * 10**9, begin_ns + 86_400 * 10**9
    assert rail_bandwidth(tables.client, "train", two_days) == [RailBandwidth(0, 1, 100e9, 0.2, "host-0", 0.2)]
    assert rail_bandwidth(tables.client, "none", two_days) == []


def test_a_job_stands_against_the_fabric(filled: Fill) -> None:
    """Growth of a port in an hour, of the job's host and of the other; a counter that was not read is left out."""
    tables = filled({"samples_1m": [
        minute("host-0", "mlx5_0", "10:01:00", 1, rx_discards_increase=6, cnp_sent_increase=0),
        minute("host-0", "mlx5_0", "10:02:00", 1, rx_discards_increase=0, cnp_sent_increase=0),
        minute("host-1", "eth0", "10:01:00", 1, rx_discards_increase=1, cnp_sent_increase=0),
        minute("host-1", "eth0", "11:30:00", 1, rx_discards_increase=1000),
        minute("leaf-0", "p0", "10:01:00", 1, rx_discards_increase=1000),
    ]})  # fmt: skip
    found = tables.rows(
        "SELECT metric, job_ports, job_per_port_hour, fabric_ports, fabric_per_port_hour, ratio FROM"
        f" job_against_fabric_1m(job = 'train', {WINDOW})"
    )
    assert found == [("cnp_sent", 1, 0, 1, 0, None), ("rx_discards", 1, 180, 1, 60, 3)]


def test_gpu_hours_lost_count_the_worst_finding_once(filled: Fill) -> None:
    """Half of 8 GPUs for half an hour, all of them for the next, and nothing after the job's end."""
    tables = filled({"findings": [
        finding("f1", LINK, "10:00:00", "11:30:00", hosts=["host-0"], capacity_lost_ratio=0.5),
        finding("f2", LINK, "10:31:00", "11:30:00", hosts=["host-0"]),
        finding("f3", LINK, "10:00:00", "11:30:00", hosts=["host-1"]),
        finding("f4", LINK, "10:00:00", "11:30:00", hosts=["host-0"], parent_id="f2"),
    ]})  # fmt: skip
    found = tables.rows(
        f"SELECT job, device, finding_id, lost_ratio, round(gpu_hours, 6) FROM gpu_hours_lost({WINDOW})"
    )
    assert found == [("train", "host-0", "f1", 0.5, 2), ("train", "host-0", "f2", 1, round(8 * 29 / 60, 6))]
