"""Tests the queries of the wall, of a finding and of the pipeline on a small fabric with known results."""

import json
import time
from typing import Any

import pytest

from dashboards import alerts
from dashboards.looks import ARCS
from dashboards.queries import congestion, host, infiniband, link, pipeline, rails, remediation
from dashboards.queries import fabric as queries
from dashboards.queries import finding as finding_queries
from dashboards.queries.changes import CHANGES
from dashboards.queries.query import NONE, Query
from lab.preview.reading import View
from tests.integration.dashboards.fabric import NOW, Board, at, finding, pipeline_rows

QUERIES = {
    name: query
    for module in (queries, finding_queries, pipeline)
    for name, query in vars(module).items()
    if isinstance(query, Query)
}
EMPTY = {"UNREACHABLE", "PLANES"}
"""Queries that the small fabric has no row for; the simulated day tests them."""


def test_every_query_returns_its_columns_and_rows(board: Board) -> None:
    """No panel is blank if there are data, and none uses a missing column."""
    for name, query in QUERIES.items():
        rows = board.ask(query)
        assert rows or name in EMPTY, name
        assert not rows or tuple(rows[0]) == query.columns, name


def test_open_findings_are_the_newest_revisions(board: Board) -> None:
    """Closed, retracted, shadow and future findings are not listed; roots come first, by severity."""
    rows = board.ask(queries.OPEN_FINDINGS)
    assert [row["id"] for row in rows] == ["critical", "elsewhere", "warning", "homeless", "child"]
    assert rows[0]["summary"] == "still down"
    assert rows[0]["lasts"] == "5 min"
    assert [rows[0]["runbook"], rows[2]["runbook"]] == [
        "https://git/docs/runbooks/link-down.md",
        "https://git/docs/runbooks/link-flap.md",
    ]
    relative = {row["id"]: row["runbook"] for row in board.ask(queries.OPEN_FINDINGS, texts={"runbooks": ""})}
    assert relative["warning"] == "/d/railsight-finding?var-finding=warning", "no other link than below the base URL"
    assert board.ask(queries.CRITICAL_COUNT) == [{"critical": 1}]
    assert board.ask(queries.OTHER_COUNT) == [{"warning": 2, "info": 1, "explained": 1}]


def test_a_past_view_shows_the_past_state(board: Board) -> None:
    """With the view ending earlier, findings that were open then are open, as they were known then."""
    assert [row["id"] for row in board.ask(queries.OPEN_FINDINGS, to=NOW - 450)] == ["over"]
    late = finding("late", "critical", 500, revision=2, status="resolved", resolved_at=at(480), arrived_at=at(420))
    board.fill({"findings": [finding("late", "critical", 500), late]})
    assert [row["id"] for row in board.ask(queries.OPEN_FINDINGS, to=NOW - 450)] == ["late", "over"]
    assert "late" not in [row["id"] for row in board.ask(queries.OPEN_FINDINGS)]


def test_findings_are_selected_by_device_rail_job_and_team(board: Board) -> None:
    """An empty text selects all; a device selects what has it at one of its ends."""
    board.fill({"findings": [
        finding("own", "warning", 80, a_device="leaf-1", z_device="spine-1", rail=2, jobs=["bert"], team="net"),
    ]})  # fmt: skip
    for name, value in {"device": "spine-1", "rail": "2", "job": "bert", "team": "net"}.items():
        assert [row["id"] for row in board.ask(queries.OPEN_FINDINGS, texts={name: value})] == ["own"], name
        assert board.ask(queries.OTHER_COUNT, texts={name: value}) == [{"warning": 1, "info": 0, "explained": 0}]
        assert board.ask(queries.OPEN_FINDINGS, texts={name: "'; --"}) == []


def test_a_device_without_a_pod_is_a_place_of_its_own(board: Board) -> None:
    """A spine's finding has the spine's name as pod; it is shown with the devices without a pod."""
    new = {"digest": "new", "effective_at": at(1000), "arrived_at": at(0)}
    board.fill({
        "inventory_devices": [{**new, "name": "spine-1", "pod": ""}],
        "findings": [finding("spine", "critical", 100, a_device="spine-1", pod="spine-1", rail=None)],
        "sample_messages": [
            {"device": "spine-1", "source": "gnmi", "rows": 8, "sampled_at": at(s), "arrived_at": at(s)}
            for s in range(120, 600, 10)
        ],
    })  # fmt: skip
    assert [row["pod"] for row in board.ask(queries.PODS)] == [NONE, "pod-1", "pod-2"]
    assert {row["id"]: row["place"] for row in board.ask(queries.OPEN_FINDINGS)}["spine"] == NONE
    place = [row["health"] for row in board.ask(queries.HEALTH, interval_s=60) if row["place"] == "(none) fabric"]
    assert place == [0] * 8 + [3, 3]


def test_a_link_between_pods_counts_in_both(board: Board) -> None:
    """In the states at the end and over time, and where only the pod of its upper end is chosen."""
    board.fill({"findings": [
        finding("between", "critical", 80, a_device="leaf-1", z_device="host-2", pod="pod-1", rail=None),
    ]})  # fmt: skip
    for pods in (("pod-1", "pod-2"), ("pod-2",)):
        rows = board.ask(queries.MATRIX, pods=pods)
        assert {row["pod"]: row["health"] for row in rows if row["place"] == "fabric"} == dict.fromkeys(pods, 3)
        states = board.ask(queries.HEALTH, pods=pods, interval_s=60)
        assert [row["health"] for row in states if row["place"] == "pod-2 fabric"][-1] == 3
        assert {row["id"]: row[ARCS["3"]] for row in board.ask(queries.NODES, pods=pods)}["pod-2"] == 1


def test_who_acknowledged_a_finding_is_shown(board: Board) -> None:
    """As long as the acknowledgement holds; one that was removed or has ended is not shown."""

    def control(identity: str, finding_id: str, offset: int, **more: Any) -> dict[str, Any]:
        return {
            "id": identity, "kind": "acknowledge", "subject_id": finding_id, "actor": "anna", "kafka_offset": offset,
            "arrived_at": at(50),
        } | more  # fmt: skip

    board.fill({"controls": [
        control("a", "critical", 1), control("b", "warning", 2, until=at(10)), control("c", "elsewhere", 3),
        control("c", "elsewhere", 4, kind="unspecified"),
    ]})  # fmt: skip
    notes = {row["id"]: row["note"] for row in board.ask(queries.OPEN_FINDINGS) if row["note"]}
    assert notes == {"critical": "ack by anna", "child": "explained by critical"}


def test_a_chosen_pod_hides_the_others(board: Board) -> None:
    """The variable filters findings, health and coverage."""
    assert [row["id"] for row in board.ask(queries.OPEN_FINDINGS, pods=("pod-2",))] == ["elsewhere"]
    assert {row["place"] for row in board.ask(queries.HEALTH, pods=("pod-2",))} == {"pod-2 fabric"}
    assert {row["pod"] for row in board.ask(queries.COVERAGE, pods=("pod-2",))} == {"pod-2"}
    assert [row["pod"] for row in board.ask(queries.PODS)] == [NONE, "pod-1", "pod-2"]


def test_health_shows_the_worst_severity_and_separates_unobserved_from_healthy(board: Board) -> None:
    """Rail 4 was critical in that time, rail 5 never faulty; a pod without reports is neither."""
    rows = board.ask(queries.HEALTH, interval_s=60)
    place: dict[str, list[int]] = {}
    for row in rows:
        place.setdefault(row["place"], []).append(row["health"])
    assert place["pod-1 rail 5"] == place["pod-1 fabric"] == [0] * 10
    # over: 500 to 400 s before the end; critical: from 300 s before it.
    assert place["pod-1 rail 4"] == [0, 3, 3, 3, 0, 3, 3, 3, 3, 3]
    assert place["pod-2 fabric"] == [0] * 8 + [2, 2]
    board.fill(
        {
            "inventory_links": [
                {"digest": "new", "effective_at": at(1000), "arrived_at": at(0), "pod": "pod-3", "rail": 0}
            ]
        }
    )
    unseen = [row["health"] for row in board.ask(queries.HEALTH, pods=("pod-3",), interval_s=60)]
    assert unseen == [-1] * 10


def test_coverage_is_relative_to_the_expected_devices(board: Board) -> None:
    """leaf-1 became silent, host-3 never reported; devices of older and later inventories are not expected."""
    by_source = {(row["pod"], row["source"]): row for row in board.ask(queries.COVERAGE)}
    assert {key: (row["expected"], row["seen"], row["stale"]) for key, row in by_source.items()} == {
        ("pod-1", "gnmi"): (2, 1, 1),
        ("pod-2", "gnmi"): (1, 1, 0),
        ("pod-2", NONE): (1, 0, 1),
    }
    (row,) = board.ask(queries.COVERAGE_COUNT)
    assert row["seen"] == pytest.approx(2 / 3), "of the sources that a collector reports"
    assert board.ask(queries.UNCOLLECTED) == [{"devices": 1}], "host-3 has no collector"
    stale = {row["device"]: row for row in board.ask(queries.STALE)}
    assert set(stale) == {"leaf-1", "host-3"}
    assert (stale["leaf-1"]["silent_for"], stale["leaf-1"]["error"]) == ("2 min", "connection refused")
    assert (stale["host-3"]["last_sample"], stale["host-3"]["silent_for"]) == (None, "")


def test_a_finding_is_shown_with_its_evidence(board: Board) -> None:
    """The newest revision's fields and each line of evidence; absent fields are omitted."""
    rows = [(row["item"], row["value"]) for row in board.ask(finding_queries.EXPLAIN)]
    assert rows[:4] == [
        ("summary", "still down"),
        ("state", "updated, critical"),
        ("subject", "link:critical"),
        ("since", rows[3][1]),
    ]
    assert [value for item, value in rows if item == "evidence"] == ["carrier lost", "both ends"]
    assert dict(rows)["confidence"] == "90 %"
    assert "explained by" not in dict(rows)


def test_lag_backlog_and_rates_are_those_of_the_rows(board: Board) -> None:
    """The stage is 2 s behind; each of two partitions has 5 records and 100 records/s; a message has 8 rows."""
    assert {row["lag"] for row in board.ask(pipeline.WATERMARK_LAG)} == {2}
    assert {int(row["behind"]) for row in board.ask(pipeline.BEHIND)} == {10}
    rates = sorted(row["rate"] for row in board.ask(pipeline.STAGE_RATE, interval_s=60) if row["stage"] == "measure")
    # The first message of each owner has no predecessor; every other minute is exact.
    assert rates[-6:] == [200] * 6 and rates[0] >= 0
    begun = at(0)
    assert max(row["time"] for row in board.ask(pipeline.STAGE_RATE, interval_s=60)) < begun, "no incomplete bucket"
    assert max(row["rate"] for row in board.ask(pipeline.ROW_RATE, interval_s=60)) == pytest.approx(3 * 8 / 10)
    assert {row["delay"] for row in board.ask(pipeline.ARRIVAL_DELAY)} == {0.5}


def test_alert_rules_fire_by_the_age_of_the_newest_row(empty: Board) -> None:
    """Their SQL as Grafana has it after provisioning; without rows there is no data, which alerts."""
    group = json.loads(alerts.rules())["groups"][0]
    sql = {rule["uid"]: rule["data"][0]["model"]["rawSql"].replace("$$", "$") for rule in group["rules"]}

    def value(uid: str) -> list[float]:
        now = int(time.time())
        rows = empty.run(View(now - alerts.RANGE_S, now, 10, {}).expand(sql[uid]))
        return [float(next(iter(row.values()))) for row in rows]

    assert value("railsight-no-clickhouse") == [1]
    assert value("railsight-no-new-rows") == []
    for ago in (200, 0):
        empty.execute(
            "INSERT INTO progress (stage, partition, epoch, watermark, arrived_at)"
            f" SELECT 'measure', 0, 1, now64(9), now64(3) - INTERVAL {ago} SECOND"
        )
        (age,) = value("railsight-no-new-rows")
        assert (age > alerts.LATE_S) is (ago > alerts.LATE_S), age


def test_each_open_critical_root_is_an_alert(board: Board) -> None:
    """Its texts are the labels; the number is above the threshold. What the wall counts as critical is the same."""
    found = board.ask(alerts.CRITICAL)
    assert len(found) == int(board.ask(queries.CRITICAL_COUNT)[0]["critical"]) > 0
    assert all(row["condition"] and row["subject"] and row["finding"] and int(row["open"]) == 1 for row in found)


def test_the_last_revision_of_a_remediation_is_shown(board: Board) -> None:
    """Each intent has one row, with the guard that denied it."""
    (row,) = board.ask(queries.REMEDIATIONS)
    assert (row["state"], row["constraint"], row["surviving"]) == (
        "denied", "surviving-capacity 0.5, limit 0.75", "50 %",
    )  # fmt: skip


def test_rejected_messages_are_counted_by_reason(board: Board) -> None:
    """Three of a kind are one row."""
    assert board.ask(pipeline.REJECTED_COUNT) == [{"rejected": 3}]
    assert [(row["reason"], row["times"]) for row in board.ask(pipeline.REJECTED)] == [("not a Samples", 3)]


def _link(identity: str, a: tuple[str, str], z: tuple[str, str], **more: Any) -> dict[str, Any]:
    """Return a link of the inventory in effect."""
    return {
        "digest": "new", "effective_at": at(1000), "arrived_at": at(1000), "pod": "pod-1", "role": "fabric-link",
        "id": identity, "a_device": a[0], "a_port": a[1], "z_device": z[0], "z_port": z[1], "speed_bps": 8_000,
    } | more  # fmt: skip


def _grown(device: str, port: str, source: str, second: int, **per_s: float) -> dict[str, Any]:
    """Return a reading of counters that grew by `per_s` since 600 s before the end."""
    return {
        "device": device, "row": port, "row_kind": "port", "source": source, "boot_id": 1, "sampled_at": at(second),
        "arrived_at": at(second),
    } | {name: round((600 - second) * value) for name, value in per_s.items()}  # fmt: skip


def test_infiniband_ports_stand_worst_first_and_absence_is_not_zero(empty: Board) -> None:
    """A port that waits 90 % of the time leads, one without a speed has no share, and one without PLR no retries."""
    leaf, spine = "leaf-1", "spine-1"
    counted: dict[tuple[str, str], dict[str, float]] = {
        (leaf, "1"): {"tx_wait_bytes": 100, "hoq_lifetime_discards": 0, "uncorrected_symbols": 0, "plr_tx_retries": 3},
        (leaf, "2"): {"tx_wait_bytes": 900, "hoq_lifetime_discards": 1, "uncorrected_symbols": 0, "plr_tx_retries": 9},
        (leaf, "3"): {"tx_wait_bytes": 950, "uncorrected_symbols": 0.1},
        (spine, "1"): {"tx_wait_bytes": 0, "uncorrected_symbols": 0, "plr_tx_retries": 0},
    }
    rows = [
        _grown(device, port, "ib", second, **per_s) | {"pre_fec_ber": 1e-7 * int(port), "post_fec_ber": 0}
        for (device, port), per_s in counted.items() for second in range(600, 0, -30)
    ]  # fmt: skip
    links = [_link("1", (leaf, "1"), (spine, "1")), _link("2", (leaf, "2"), (spine, "2"))]
    devices = [{**links[0], "name": name} for name in (leaf, spine)]
    fields = ("digest", "effective_at", "arrived_at", "pod", "name")
    empty.fill({
        "inventory_links": links, "inventory_devices": [{name: one[name] for name in fields} for one in devices],
        "samples": [*rows, *(_grown("host-1", "e0", "nic", s, tx_wait_bytes=999) for s in (90, 60, 30))],
    })  # fmt: skip
    waits = empty.ask(infiniband.WAITS)
    assert [(row["device"], row["port"], row["discards"]) for row in waits] == [
        (leaf, "2", 360), (leaf, "1", 0), (spine, "1", None), (leaf, "3", None),
    ]  # fmt: skip
    assert [row["waits"] for row in waits] == [pytest.approx(0.9), pytest.approx(0.1), 0, None]
    assert waits[-1]["bps"] == pytest.approx(7600) and waits[0]["subject"] == "link:leaf-1/2--spine-1/2"
    assert set(empty.ask(infiniband.COUNTS)[0].values()) == {None}, "zero would prove nothing without a pipeline"
    empty.fill({"progress": pipeline_rows()["progress"]})
    assert empty.ask(infiniband.COUNTS) == [{"waiting": 1, "losing": 1, "discarding": 1, "read": 4}]
    errors = empty.ask(infiniband.ERRORS)
    assert [(row["device"], row["port"]) for row in errors] == [(leaf, "3"), (leaf, "2"), (leaf, "1"), (spine, "1")]
    assert [row["retries"] for row in errors] == [None, pytest.approx(9 * 570), pytest.approx(3 * 570), 0]
    assert errors[0]["uncorrected"] == pytest.approx(57) and errors[0]["damaged"] is None
    assert [(row["raw"], row["effective"]) for row in errors[:2]] == [
        (pytest.approx(3e-7), 0),
        (pytest.approx(2e-7), 0),
    ]
    for query, worst, value in (
        (infiniband.WAITING, f"{leaf} 2", 0.9), (infiniband.UNCORRECTED, f"{leaf} 3", 0.1),
        (infiniband.RETRIES, f"{leaf} 2", 9), (infiniband.BER, f"{leaf} 3", 3e-7),
    ):  # fmt: skip
        drawn = [row[query.columns[-1]] for row in empty.ask(query, interval_s=30) if row["series"] == worst]
        assert len(drawn) >= 18 and drawn == pytest.approx([value] * len(drawn), rel=0.05), query.columns


def test_no_storm_and_no_collapse_are_known_to_be_absent_where_nothing_shows_them(empty: Board) -> None:
    """Without a column of pause the count is unknown, not zero; a finding counts in any case."""
    none = {"incast": 0, "pfc_storm": None, "imbalance": 0, "collapse": None}
    seconds = (60, 30, 5)
    empty.fill({
        "progress": pipeline_rows()["progress"],
        "samples": [_grown("leaf-1", "p1", "snmp", second, rx_bytes=1) for second in seconds],
    })  # fmt: skip
    assert empty.ask(congestion.COUNTS) == [none]
    storm = {"detector": "congestion/pfc-storm", "arrived_at": at(50)}
    empty.fill({"findings": [finding("storm", "critical", 50, **storm)]})
    assert empty.ask(congestion.COUNTS) == [none | {"pfc_storm": 1}]
    over = storm | {"revision": 2, "status": "resolved", "resolved_at": at(20), "arrived_at": at(20)}
    empty.fill({"findings": [finding("storm", "critical", 50, **over)]})
    assert empty.ask(congestion.COUNTS) == [none]
    empty.fill({"samples": [_grown("host-1", "e0", "nic", second, cnp_handled=0) for second in seconds]})
    assert empty.ask(congestion.COUNTS) == [none | {"collapse": 0}]
    empty.fill({"samples": [_grown("leaf-1", "p1", "gnmi", second, pause_rx_frames=0) for second in seconds]})
    assert empty.ask(congestion.COUNTS) == [none | {"collapse": 0, "pfc_storm": 0}]


def test_a_link_shows_its_retries_trimmed_packets_and_credits(empty: Board) -> None:
    """Each end has its own; what an end does not count has no line."""
    ends = ("leaf-1", "p1"), ("spine-1", "p2")
    seconds = range(600, 0, -10)
    samples = [_grown(*ends[0], "gnmi", s, llr_tx_replays=5, trimmed_packets=70, tx_wait_bytes=100) for s in seconds]
    samples += [_grown(*ends[1], "gnmi", s, llr_rx_bad=4, llr_tx_discards=2) for s in seconds]
    used = {
        "device": "spine-1", "row": "p2", "row_kind": "port", "source": "gnmi", "metric": "credits_used", "index": 3,
        "gauge": 12,
    }  # fmt: skip
    lanes = [used | {"sampled_at": at(second), "arrived_at": at(second)} for second in seconds]
    empty.fill({"inventory_links": [_link("1", *ends)], "samples": samples, "sample_lanes": lanes})
    drawn = {
        (row["series"], round(row[query.columns[-1]], 3))
        for query in (link.RETRIES, link.TRIMMED, link.WAITS, link.CREDITS)
        for row in empty.ask(query, interval_s=30, texts={"subject": "link:leaf-1/p1--spine-1/p2"})
    }
    assert drawn == {
        ("A LLR replays", 5), ("Z LLR received damaged", 4), ("Z LLR lost", 2), ("A trimmed", 70), ("A waits", 800),
        ("Z credits channel 3", 12),
    }  # fmt: skip


def test_the_planes_that_a_rail_lost_and_what_each_plane_delivers(empty: Board) -> None:
    """The rail that keeps the fewest comes first, also one without planes; a resolved finding does not count."""
    new = {"digest": "new", "effective_at": at(1000), "arrived_at": at(1000), "pod": "pod-1", "role": "host-link"}
    ports = [(f"host-{host}", rail, plane) for host in (1, 2) for rail in (0, 1) for plane in range(4)]
    links = [
        new | {"id": f"{host}{rail}{plane}", "a_device": host, "a_port": f"eth_r{rail}_p{plane}", "rail": rail}
        | {"z_device": f"leaf-{rail}{plane}", "z_port": host, "plane": plane, "speed_bps": 8_000}
        for host, rail, plane in ports
    ]  # fmt: skip
    links.append(
        new | {"id": "single", "a_device": "host-3", "a_port": "e0", "z_device": "leaf", "z_port": "3", "rail": 0}
    )
    subjects = {ports[i]: f"link:{row['a_device']}/{row['a_port']}--{row['z_device']}/{row['z_port']}"
                for i, row in enumerate(links[:-1])}  # fmt: skip
    down = [("host-1", 0, 3), ("host-2", 1, 0), ("host-2", 1, 2)]
    found = [finding(f"down-{n}", "warning", 300, subject_id=subjects[port]) for n, port in enumerate(down)]
    over = {"subject_id": subjects["host-1", 1, 1], "status": "resolved", "resolved_at": at(100)}
    found += [
        finding("over", "warning", 300, **over),
        finding("single", "critical", 300, subject_id="link:host-3/e0--leaf/3"),
    ]
    samples = [
        {"device": row["a_device"], "row": row["a_port"], "row_kind": "port", "source": "nic", "boot_id": 1}
        | {"sampled_at": at(second), "arrived_at": at(second), "rx_bytes": 0}
        | {"tx_bytes": 0 if row["plane"] == 3 else (600 - second) * 500}
        for row in links[:-1]
        for second in range(250, 0, -10)
    ]  # fmt: skip
    empty.fill({"inventory_links": links, "findings": found, "samples": samples})
    rows = empty.ask(rails.LOST)
    assert [(row["host"], row["rail"], row["planes"], row["lost"]) for row in rows] == [
        ("host-3", "rail 0", "0 of 1", "all"), ("host-2", "rail 1", "2 of 4", "0, 2"),
        ("host-1", "rail 0", "3 of 4", "3"),
    ]  # fmt: skip
    assert [row["left"] for row in rows] == [0, 0.5, 0.75]
    delivered = {(row["rail"], row["place"]): row["delivered"] for row in empty.ask(rails.PLANES)}
    assert delivered == {
        (f"rail {rail}", f"plane {plane}"): pytest.approx(0.5 * (plane < 3)) for rail in (0, 1) for plane in range(4)
    }


def test_the_trend_of_a_finding_is_its_last_change(board: Board) -> None:
    """Neither a new summary nor an earlier change counts; the findings that get worse stand before their peers."""
    board.fill(
        {
            "findings": [
                finding("grew", "warning", 250),
                finding("grew", "warning", 250, revision=2, hosts=["host-1", "host-2"], arrived_at=at(120)),
                finding("eased", "critical", 80),
                finding("eased", "warning", 80, revision=2, arrived_at=at(30)),
            ]
        }
    )
    rows = board.ask(queries.OPEN_FINDINGS)
    trends = {row["id"]: row["trend"] for row in rows}
    assert (trends["grew"], trends["eased"], trends["critical"]) == ("worse, 2 min ago", "better, 30 s ago", "")
    warnings = [row["id"] for row in rows if row["severity"] == "warning"]
    assert warnings[0] == "grew"


def test_changes_are_those_of_the_chosen_time(board: Board) -> None:
    """A roll-out of two devices is one row, a reboot that two sources report too; a first reading is no change."""
    read = [("leaf-1", 900, "1.0"), ("leaf-1", 300, "1.1"), ("leaf-2", 900, "1.0"), ("leaf-2", 290, "1.1")]
    facts = [
        {"device": device, "source": source, "model": "m", "os_version": version, "observed_at": at(second)}
        | {"arrived_at": at(second), "booted_at": at(310 if second < 600 else 90_000)}
        for device, second, version in read for source in ("gnmi", "snmp")
    ]  # fmt: skip
    events = [
        {"device": "leaf-1", "kind": "device_reboot", "at": at(305), "arrived_at": at(304)},
        *({"device": "leaf-1", "port": f"e{n}", "kind": "admin_down", "at": at(200), "arrived_at": at(200)}
          for n in range(2)),
    ]  # fmt: skip
    devices = [
        {"digest": "new", "effective_at": at(1000), "arrived_at": at(1000), "name": "leaf-2", "pod": "pod-1"}
    ]  # fmt: skip
    jobs = [{"job": "llama", "device": "host-1", "start": at(400), "end": at(100), "arrived_at": at(100)}]
    board.fill({"facts": facts, "events": events, "inventory_devices": devices, "jobs": jobs})

    def shown(**texts: str) -> list[tuple[str, str, str]]:
        return [(row["what"], row["subject"], row["text"]) for row in board.ask(CHANGES, texts=texts)]

    changed = shown()
    assert [one[:2] for one in changed if one[0] == "reboot"] == [("reboot", "leaf-1"), ("reboot", "leaf-2")]
    (rollout,) = (one for one in changed if one[0] == "roll-out")
    assert rollout[1] == "2 devices" and rollout[2].startswith("m: 1.0 to 1.1, since ")
    assert ("shut", "leaf-1", "ports e0, e1") in changed
    assert {("job began", "llama", "1 hosts"), ("job ended", "llama", "1 hosts")} <= set(changed)
    assert {"finding opened", "finding resolved", "drain link denied"} <= {what for what, _, _ in changed}
    assert "reboot" not in {what for what, _, _ in shown(device="host-1")}


def test_the_broken_link_is_an_edge_that_leads_to_it_and_counts_at_both_switches(empty: Board) -> None:
    """Its two switches are drawn with the link between them; each has one uplink less."""
    down = "link:leaf-1/u0--spine-1/p0"
    links = [_link("x0", ("leaf-1", "u0"), ("spine-1", "p0")), _link("x1", ("leaf-1", "u1"), ("spine-1", "p1"))]
    devices = [
        {"digest": "new", "effective_at": at(1000), "arrived_at": at(1000), "name": name, "pod": pod, "kind": "switch"}
        for name, pod in (("leaf-1", "pod-1"), ("spine-1", ""))
    ]  # fmt: skip
    ill = finding("f", "critical", 60, subject_id=down, a_device="leaf-1", z_device="spine-1")
    empty.fill({"inventory_links": links, "inventory_devices": devices, "findings": [ill]})
    (edge,) = (row for row in empty.ask(queries.EDGES) if row["subject"])
    assert (edge["source"], edge["target"], edge["mainstat"]) == ("leaf-1", "spine-1", "1 of 2")
    assert (edge["subject"], edge["color"]) == (down, "#D55E00")
    lost = {row["place"]: (row["links"], row["lost"]) for row in empty.ask(remediation.CAPACITY)}
    assert lost["switch leaf-1"] == lost["switch spine-1"] == (2, 1)


@pytest.mark.parametrize("plane", [None, 0])
@pytest.mark.parametrize("ill", [False, True], ids=["well", "ill"])
def test_each_edge_has_two_nodes_in_a_fabric_with_its_spines_in_a_pod(
    empty: Board, ill: bool, plane: int | None
) -> None:
    """`railsight init` drafts such an inventory. Grafana draws nothing if an edge has an end that is no node."""
    links = [_link(f"x{n}", ("leaf-1", f"u{n}"), ("spine-1", f"p{n}"), plane=plane) for n in range(2)]
    devices = [
        {"digest": "new", "effective_at": at(1000), "arrived_at": at(1000), "name": name, "pod": "pod-1"}
        | {"kind": "switch"} for name in ("leaf-1", "spine-1")
    ]  # fmt: skip
    down = "link:leaf-1/u0--spine-1/p0"
    found = finding("f", "critical", 60, subject_id=down, a_device="leaf-1", z_device="spine-1")
    empty.fill({"inventory_links": links, "inventory_devices": devices, "findings": [found] * ill})
    nodes = {row["id"] for row in empty.ask(queries.NODES)}
    edges = empty.ask(queries.EDGES)
    assert edges and {end for row in edges for end in (row["source"], row["target"])} <= nodes
    assert ("leaf-1", "spine-1") in {(row["source"], row["target"]) for row in edges} or not ill
    assert all(row["mainstat"] == "" for row in edges if row["source"] == row["target"])


def test_a_broken_link_of_a_host_is_an_edge_from_its_pod_to_its_leaf(empty: Board) -> None:
    """A fabric of hosts and leaves alone has a map too; a switch without links to hosts has no number at its edge."""
    down = "link:h1/r0--leaf-1/p1"
    ends = (("h1", "p1"), ("h2", "p2"))
    links = [_link(one, (one, "r0"), ("leaf-1", port), role="host-link", rail=0) for one, port in ends]
    devices = [
        {"digest": "new", "effective_at": at(1000), "arrived_at": at(1000), "name": name, "pod": pod, "kind": "switch"}
        for name, pod in (("leaf-1", "pod-1"), ("spine-1", ""))
    ]  # fmt: skip
    ill = [
        finding("f", "critical", 60, subject_id=down, a_device="h1", z_device="leaf-1"),
        finding("g", "critical", 60, subject_id="device:spine-1", a_device="spine-1", detector="device/down"),
    ]
    empty.fill({"inventory_links": links, "inventory_devices": devices, "findings": ill})
    edges = {(row["source"], row["target"]): (row["mainstat"], row["subject"]) for row in empty.ask(queries.EDGES)}
    assert edges == {("pod-1", "leaf-1"): ("1 of 2", down), ("spine-1", "no pod"): ("", "")}


def test_of_many_pods_only_the_ill_ones_are_drawn(empty: Board) -> None:
    """The other pods are one place with all their links, so that the graph reads at any size; so does the timeline."""
    pods = tuple(f"p{number:02}" for number in range(30))
    leaves = [(f"{pod}-leaf", pod) for pod in pods]
    devices = [
        {"digest": "new", "effective_at": at(1000), "arrived_at": at(1000), "name": name, "pod": pod, "kind": "switch"}
        for name, pod in (*leaves, ("spine", ""))
    ]  # fmt: skip
    links = [_link(leaf, (leaf, "u"), ("spine", leaf), pod=pod) for leaf, pod in leaves]
    down = "link:p29-leaf/u--spine/p29-leaf"
    ill = finding("f", "critical", 60, subject_id=down, a_device="p29-leaf", z_device="", pod="p29", rail=None)
    reported = [
        {"device": name, "source": "gnmi", "row_kind": "port", "sampled_at": at(20), "arrived_at": at(20)}
        for name, _ in leaves
    ]  # fmt: skip
    empty.fill({
        "inventory_links": links, "inventory_devices": devices, "findings": [ill], "sample_messages": reported,
    })  # fmt: skip
    assert {row["id"] for row in empty.ask(queries.NODES, pods=pods)} == {"p29", "other pods", "p29-leaf", "no pod"}
    edges = {(row["source"], row["target"]): row["mainstat"] for row in empty.ask(queries.EDGES, pods=pods)}
    assert edges["other pods", "no pod"] == "29" and edges["p29-leaf", "no pod"] == "0 of 1"
    places = {row["place"] for row in empty.ask(queries.HEALTH, pods=pods)}
    assert len(places) == queries.HEALTH_PLACES and "p29 fabric" in places


def test_a_port_that_is_read_every_30_s_has_a_state_without_gaps(empty: Board) -> None:
    """A reading is valid until the next one, for a minute at most: one outage is one interval, and silence is grey."""
    link_id = "link:leaf-1/u0--spine-1/p0"
    states = {570: 1, 540: 1, 510: 0, 480: 0, 450: 0, 420: 1}
    read = [_grown("leaf-1", "u0", "snmp", second) | {"oper_up": up, "admin_up": 1} for second, up in states.items()]
    empty.fill({"inventory_links": [_link("x0", ("leaf-1", "u0"), ("spine-1", "p0"))], "samples": read})
    rows = empty.ask(link.STATES, texts={"subject": link_id})
    course = [row["health"] for row in rows if row["end"].startswith("A ")]
    changes = [health for health, before in zip(course, [None, *course], strict=False) if health != before]
    assert changes == [-1, 0, 3, 0, -1], course
    assert _sums(empty.ask(link.FLAPS, texts={"subject": link_id})) == {"A seen down": 1}
    counted = [_grown("leaf-1", "u0", "snmp", second, link_down_events=0.01) for second in (410, 210)]
    empty.fill({"samples": counted})
    assert set(_sums(empty.ask(link.FLAPS, texts={"subject": link_id}))) == {"A times down"}, "a counter sees more"


def _sums(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the sum of each series of bars."""
    sums: dict[str, float] = {}
    for row in rows:
        sums[row["series"]] = sums.get(row["series"], 0) + row["rate"]
    return sums


def test_a_comparison_of_idle_rails_has_no_line(empty: Board) -> None:
    """Grafana shows the panel's reason for no rows, and empty axes for rows without a value."""
    hosts = [_link(one, (one, "r0"), ("leaf-1", one), role="host-link", rail=0) for one in ("h1", "h2")]
    devices = [
        {"digest": "new", "effective_at": at(1000), "arrived_at": at(1000), "name": one, "pod": "pod-1"}
        for one in ("h1", "h2")
    ]

    def read(tx_bytes: float) -> list[dict[str, Any]]:
        seconds = range(300, 0, -30)
        return [_grown(one, "r0", "nic", second, tx_bytes=tx_bytes) for one in ("h1", "h2") for second in seconds]

    empty.fill({"inventory_links": hosts, "inventory_devices": devices, "samples": read(0)})
    assert not empty.ask(host.AGAINST_PEERS, texts={"host": "h1"})
    empty.fill({"samples": [{**one, "boot_id": 2} for one in read(500)]})
    assert {row["share"] for row in empty.ask(host.AGAINST_PEERS, texts={"host": "h1"})} >= {1}
