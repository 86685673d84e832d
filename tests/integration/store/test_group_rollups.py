"""Tests the groups of ports by hour: two hosts of a pod, their leaf with three uplinks, and a spine without a pod."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streams.detect.params import DetectParams
from streams.store.persist.group_rollups import BACKFILL_HOURS, UNUSED_UPLINK, group_hours
from tests.integration.fixtures_clickhouse import ClickHouse as Server
from tests.integration.store.tables import Row, Tables

NOW = datetime.fromtimestamp(time.time(), UTC).replace(minute=0, second=0, microsecond=0, tzinfo=None)
GBPS = 10**9


def hour(back: int) -> str:
    """Return the begin of an hour before the present one."""
    return str(NOW - timedelta(hours=back))


class Store(Tables):
    """Tables with the inventory of the pod."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__(server, name)
        self.inventory("d", hour(900), "pod-0")

    def inventory(self, digest: str, effective: str, pod: str) -> None:
        one = {"digest": digest, "effective_at": effective, "arrived_at": hour(3)}
        link = {**one, "pod": pod, "speed_bps": 100 * GBPS}
        self.fill("inventory_devices", [
            *({**one, "name": f"host-{number}", "kind": "host", "pod": pod} for number in range(2)),
            {**one, "name": "leaf-0", "kind": "switch", "pod": pod}, {**one, "name": "spine-0", "kind": "switch"},
        ])  # fmt: skip
        self.fill("inventory_links", [
            *(
                {**link, "id": f"l{number}", "a_device": f"host-{number}", "a_port": "eth0", "z_device": "leaf-0",
                 "z_port": f"p{number}", "role": "host-link", "rail": 0} for number in range(2)
            ),
            *(
                {**link, "id": f"u{number}", "a_device": "leaf-0", "a_port": f"up{number}", "z_device": "spine-0",
                 "z_port": f"q{number}", "role": "fabric-link", "rail": None} for number in range(3)
            ),
        ])  # fmt: skip

    def groups(self, statistic: str, columns: str, back: int = 2) -> list[tuple[Any, ...]]:
        """Return columns of the groups of an hour."""
        return self.rows(
            f"SELECT {columns} FROM port_groups_1h FINAL WHERE statistic = '{statistic}'"
            f" AND bucket = toDateTime('{hour(back)}', 'UTC') ORDER BY kind, device, role, rail, source"
        )

    def bring_up_to_date(self) -> int:
        """Return how many hours were written."""
        return group_hours(self.client, self.client.params, 6)


@pytest.fixture
def store(clickhouse: Server, clickhouse_database: Callable[[], str]) -> Store:
    return Store(clickhouse, clickhouse_database())


def port(device: str, row: str, gbps: float, *, back: int = 2, source: str = "gnmi", **others: Any) -> Row:
    """Return an hour of a port that sends and receives at a rate."""
    grown = int(gbps * GBPS * 3600 / 8)
    return {
        "device": device, "row": row, "row_kind": "port", "source": source, "bucket": hour(back), "minutes": 60,
        "readings": 360, "observed_s": 3600, "tx_bytes_increase": grown, "rx_bytes_increase": grown,
        "arrived_at": hour(back),
    } | others  # fmt: skip


def test_the_counters_of_a_group_are_rates_of_the_ports_that_have_them(store: Store) -> None:
    """Ports of a switch by what they lead to, those of a pod's hosts by rail; what is not in the inventory apart."""
    store.fill("samples_1h", [
        port("host-0", "eth0", 40, source="nic", rx_discards_increase=3600),
        port("host-1", "eth0", 40, source="nic", rx_discards_increase=900, observed_s=1800),
        port("leaf-0", "p0", 40, rx_discards_increase=0), port("leaf-0", "p1", 40),
        port("leaf-0", "up0", 40, rx_discards_increase=7200), port("spine-0", "q0", 40, rx_discards_increase=360),
        port("stranger", "p9", 40, rx_discards_increase=36),
    ])  # fmt: skip
    assert store.bring_up_to_date() == 1
    columns = "kind, pod, device, role, rail, source, rx_discards_per_s, readings, cnp_sent_per_s"
    assert store.groups("counters", columns) == [
        ("", "", "", "", -1, "gnmi", 0.01, 360, None),
        ("host", "pod-0", "", "host-link", 0, "nic", 1.5, 720, None),
        ("switch", "pod-0", "leaf-0", "fabric-link", -1, "gnmi", 2, 360, None),
        ("switch", "pod-0", "leaf-0", "host-link", 0, "gnmi", 0, 720, None),
        ("switch", "", "spine-0", "fabric-link", -1, "gnmi", 0.1, 360, None),
    ]


def test_the_priorities_of_a_port_are_added_up(store: Store) -> None:
    """A group has the frames of all priorities."""
    lane = {"metric": "pfc_rx_frames", "increase": 7200}
    store.fill("sample_lanes_1h", [
        *(port("leaf-0", "p0", 0) | lane | {"index": index} for index in (3, 4)),
        port("leaf-0", "p1", 0) | lane | {"index": 3}, port("leaf-0", "p1", 0) | {"metric": "rx_power_dbm"},
    ])  # fmt: skip
    assert store.bring_up_to_date() == 1
    assert store.groups("lanes", "device, pfc_rx_frames_per_s, pfc_tx_frames_per_s") == [("leaf-0", 6, None)]


def test_a_nic_sends_by_itself_or_as_its_switch_received_it(store: Store) -> None:
    """By rail and by host: the sum, the least, the median and the nominal speed."""
    store.fill("samples_1h", [
        port("host-0", "eth0", 40, source="nic"), port("leaf-0", "p0", 55), port("leaf-0", "p1", 20),
    ])  # fmt: skip
    store.bring_up_to_date()
    columns = "device, rail, carried_bps, carried_bps_min, carried_bps_median, carried_speed_bps, carried_ports"
    assert store.groups("carried", columns) == [
        ("", 0, 60e9, 20e9, 30e9, 200e9, 2), ("host-0", -1, 40e9, 40e9, 40e9, 100e9, 1),
        ("host-1", -1, 20e9, 20e9, 20e9, 100e9, 1),
    ]  # fmt: skip


def test_uplinks_are_uneven_against_the_mean_of_those_in_use(store: Store) -> None:
    """An uplink that carries next to nothing is not in use, as the detector has it by default."""
    assert DetectParams().imbalance.unused == UNUSED_UPLINK
    store.fill("samples_1h", [port("leaf-0", "up0", 60), port("leaf-0", "up1", 20), port("leaf-0", "up2", 0.1)])
    store.bring_up_to_date()
    assert store.groups("uplinks", "device, pod, round(uplinks_uneven, 6)") == [("leaf-0", "pod-0", 0.5)]


def test_hours_are_grouped_once_and_again_where_they_changed(store: Store) -> None:
    """A port that was counted late joins its group; the groups of before are replaced."""
    store.fill("samples_1h", [port("leaf-0", "p0", 10, rx_discards_increase=3600)])
    assert [store.bring_up_to_date() for _ in range(2)] == [1, 0]
    store.fill("samples_1h", [port("leaf-0", "p1", 10, rx_discards_increase=3600)])
    assert [store.bring_up_to_date() for _ in range(2)] == [1, 0]
    assert store.groups("counters", "device, rx_discards_per_s, readings") == [("leaf-0", 2, 720)]


def test_an_hour_has_the_inventory_of_its_end(store: Store) -> None:
    """A pod that was renamed since keeps its name in the hours of before."""
    store.inventory("new", hour(1), "pod-9")
    store.fill("samples_1h", [port("host-0", "eth0", 40, source="nic", back=back) for back in (1, 2)])
    assert store.bring_up_to_date() == 2
    assert [store.groups("carried", "DISTINCT pod", back) for back in (2, 1)] == [[("pod-0",)], [("pod-9",)]]


def test_hours_of_before_the_upgrade_follow_the_newest_first(store: Store) -> None:
    """A limited number at a time, over hours without readings, until there are no more within a month."""
    backs = [2, *range(8, 8 + BACKFILL_HOURS), 60, 31 * 24 + 2]
    store.fill("samples_1h", [port("host-0", "eth0", 40, source="nic", back=back) for back in backs])
    assert [store.bring_up_to_date() for _ in range(3)] == [1 + BACKFILL_HOURS, 1, 0]
    assert [len(store.groups("carried", "DISTINCT pod", back)) for back in backs] == [1] * (len(backs) - 1) + [0]
