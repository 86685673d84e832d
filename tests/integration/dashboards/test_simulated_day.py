"""Tests every panel of every board on a simulated day: each shows the fault that was injected, or that there is none.

The faults are in simulated_day.py. Each fact names the board, the panel and what a person must be able to read there.
"""

import json
from collections.abc import Callable

import pytest

from dashboards.__main__ import BOARDS, FOLDER
from dashboards.board import opened_panels
from dashboards.limits import DETECT
from dashboards.looks import ARCS, CRITICAL, HEALTHY, LEVELS, UNOBSERVED
from lab.preview.reading import View, answers, opened, stat, state
from streams.fabric.inventory import Link
from tests.integration.dashboards.fabric import Board, Rows
from tests.integration.dashboards.simulated_day import (
    DOWN,
    FLAPS,
    HOUR,
    INCAST_LINK,
    JOB,
    NARROW,
    SLOW,
    START_S,
    WORSE,
)


def subject(link: Link) -> str:
    return f"link:{link.a_device}/{link.a_port}--{link.z_device}/{link.z_port}"


class Day:
    """The panels of a board over some hours of the day, by their titles, each with the rows of its queries in order."""

    def __init__(self, board: Board, name: str, begin_h: float = 0, end_h: float = 24, **chosen: str) -> None:
        made = json.loads((FOLDER / f"{name}.json").read_text())
        from_s, to_s = START_S + round(begin_h * HOUR), START_S + round(end_h * HOUR)
        self.view = view = opened(made, board.run, View(from_s, to_s, 300, {}), chosen)
        self.panels = {panel["title"]: panel for panel in opened_panels(made)}
        self.rows: dict[str, list[Rows]] = {}
        for answer in answers(made, board.run, view):
            self.rows.setdefault(answer.title, []).append(answer.rows)

    def __getitem__(self, title: str) -> Rows:
        return self.rows[title][0]

    def colors(self, title: str) -> list[str]:
        """Return the colors of a stat panel, or of the tiles of its rows."""
        if self.panels[title]["options"]["reduceOptions"].get("values"):
            return [state(self.panels[title], row["health"]).color for row in self[title]]
        return [tile.color for tile in stat(self.panels[title], self[title])]

    def states(self, title: str, place: str) -> set[str]:
        """Return the texts of a place of a timeline."""
        name = next(key for key in self[title][0] if key not in ("time", "health"))
        return {state(self.panels[title], row["health"]).text for row in self[title] if row[name] == place}


def series(rows: Rows, name: str) -> list[float]:
    value = list(rows[0])[-1]
    return [row[value] for row in rows if row[list(rows[0])[1]] == name and row[value] is not None]


def fabric_at_midnight(day: Board) -> None:
    """Two criticals are open: the link that is down, and the GPU that has fallen off the bus."""
    wall = Day(day, "fabric", 12, 23.99)  # each spine was read within the last minute
    assert wall["Critical"] == [{"critical": 2}] and wall.colors("Critical") == [CRITICAL]
    assert {row["condition"] for row in wall["Open findings"]} == {"link/down", "host/gpu-fault"}
    health = {(row["pod"], row["place"]): row["health"] for row in wall["Health by pod and rail"]}
    assert health["pod1", "rail 2"] == 3 and health["pod1", "rail 3"] == 0 and health["(none)", "fabric"] == 0
    assert wall["Sources observed"] == [{"seen": 1}] and wall["Not collected"] == [{"devices": 0}]
    assert [row["health"] for row in wall["Health by plane"]] == [0, 0]
    nodes, edges = wall.rows["Pods, planes and switches"]
    colors = {row["id"]: LEVELS[level][1] for row in nodes for level, arc in ARCS.items() if row[arc]}
    assert (colors["pod1"], colors["pod1-leaf3"], colors["plane 0"]) == (CRITICAL, CRITICAL, HEALTHY)
    assert {row["source"] for row in edges} == {"pod1"}, "no link between switches is lost"
    assert {row["target"] for row in edges} == {"pod1-leaf3", "plane 0", "plane 1"}
    assert len({(row["fixedx"], row["fixedy"]) for row in nodes}) == len(nodes)
    broken = {row["target"]: row["subject"] for row in edges if row["subject"]}
    assert broken == {"pod1-leaf3": "link:pod1-host1/mlx5_2--pod1-leaf3/Ethernet1/1"}, "of the leaf and its pod"
    changes = {row["what"] for row in wall["What changed"]}
    assert {"finding opened", "finding resolved"} <= changes
    assert not wall["Waiting for a person"] or "railsight " in wall["Waiting for a person"][0]["command"]
    assert wall.states("Health over time", "pod1 rail 2") == {"healthy", "critical"}
    assert (
        sum(row["opened"] for row in wall["Findings opened"]) == len({r["subject"] for r in wall["Open findings"]}) + 2
    )
    assert {row["source"] for row in wall["Sources by pod"]} == {"gnmi", "nic", "host"}
    assert not wall["Silent sources"]
    assert {row["action"] for row in wall["Remediations"]} >= {"repair link"}


def link_that_is_down(day: Board) -> None:
    """Without a choice the board shows the link with the worst finding; both ends are down from 23:00."""
    link = Day(day, "link", 22, 24)
    assert [row["state"] for row in link["${subject}"]] == ["down", "down"]
    assert [row["device"] for row in link["${subject}"]] == ["pod1-host1", "pod1-leaf3"]
    assert {row["part"] for row in link["${subject}"]} == {"MCX75310AAS-NEAT", "MMS4X00-NS"}
    assert link.states("State of both ends", "A pod1-host1/mlx5_2") == {"up", "down"}
    assert [(row["condition"], row["now"]) for row in link["Findings"]] == [("link/down", "open")]
    assert max(series(link["Flaps"], "A times down")) == 1
    assert series(link["Traffic"], "A sends")[0] > 1e11 and series(link["Traffic"], "A sends")[-1] == 0
    assert series(link.rows["Traffic"][1], "nominal") == [4e11, 4e11]
    assert all(power < 5 for power in series(link["Optical power"], "Z received"))
    assert [row["action"] for row in link["Remediations"]][:1] == ["repair link"]


def link_that_gets_worse(day: Board) -> None:
    """From 10:00 to 11:00 the spine's end loses frames, and its BER is above the limit."""
    link = Day(day, "link", 9, 12, link=subject(WORSE))
    assert [row["condition"] for row in link["Findings"]] == ["link/degrading"]
    ber = series(link["Bit errors before and after FEC"], "Z pre-FEC BER")
    assert max(ber) > DETECT.degrading.ber > min(ber)
    assert max(series(link["Errors"], "Z FCS")) > 0 and max(series(link["Errors"], "A FCS")) < 0.1
    assert max(series(link["FEC"], "Z corrected bits")) > 1e5
    assert not link["Forecasts"] and not link.rows["Bit errors before and after FEC"][1], "no trend, a step"


def link_that_flaps(day: Board) -> None:
    """Four downs within eight minutes at 4:00."""
    link = Day(day, "link", 3, 5, link=subject(FLAPS))
    assert [row["condition"] for row in link["Findings"]] == ["link/flap"]
    assert sum(series(link["Flaps"], "Z transitions")) == 8
    assert set(series(link["Pause frames"], "Z pause sent")) == {0}
    assert not link["Time paused"], "the time of pause is read of NICs"


def host_with_a_slow_rail(day: Board) -> None:
    """Rail 4 sends 0.6 of its peers from 12:00 to 13:00; the GPU's fault is at 15:00."""
    host = Day(day, "host", 11, 16, host=SLOW.a_device)
    assert {row["item"]: row["value"] for row in host["${host}"]}["pod"] == "pod1"
    shares = series(host["Rails against their peers"], "rail 4")
    assert min(shares) == pytest.approx(0.6, abs=0.05) and shares[0] == pytest.approx(1, abs=0.05)
    assert min(series(host["Rails against their peers"], "rail 5")) > DETECT.rail.slow
    assert max(series(host["Sends"], "rail 5")) == pytest.approx(0.45 * 4e11, rel=0.05)
    assert host.states("Rails", "rail 4") == {"healthy"}
    assert {row["state"] for row in host["Links"]} == {"up"} and len(host["Links"]) == 8
    assert [row["condition"] for row in host["Findings"]] == ["host/gpu-fault"]
    assert ("gpu xid", 79) in {(row["kind"], row["code"]) for row in host["Kernel and link events"]}
    assert [row["job"] for row in host["Jobs"]] == [JOB]
    assert {row["state"] for row in host["PCIe links"]} == {"full"}
    assert 20 < max(row["value"] for row in host["GPU heat"]) < DETECT.thermal.gpu_limit_c
    assert 20 < max(row["value"] for row in host["Module heat"]) < DETECT.thermal.module_limit_c
    assert {row["rate"] for row in host["GPU errors"]} == {0}
    assert max(series(host["RoCE"], "rail 4 CNP handled")) > 0
    assert {row["rate"] for row in host["NICs wait for PCIe"]} == {0}
    assert [*host.view.variables["nics"], *host.view.variables["gpus"]] == ["has data", "has data"]


def host_with_a_narrow_link(day: Board) -> None:
    """A NIC trained with half of its lanes at 14:00."""
    host = Day(day, "host", 14, 14.9, host=NARROW.a_device)
    below = [
        (row["part"], row["lanes"], row["lanes_possible"]) for row in host["PCIe links"] if row["state"] == "below"
    ]
    assert below == [("mlx5_1", 8, 16)]
    assert [row["condition"] for row in host["Findings"]] == ["host/pcie-degraded"]


def rails_with_a_straggler(day: Board) -> None:
    """At 12:30 the slow rail is the first of the ranking, and the only slow one."""
    rails = Day(day, "rails", 12, 12.5)
    assert rails["Slow"] == [{"slow": 1, "even": 31, "idle": 0}] and rails["Not read"] == [{"unobserved": 0}]
    first = rails["Stragglers"][0]
    assert (first["host"], first["rail"], first["subject"]) == ("pod1-host2", "rail 4", subject(SLOW))
    assert first["share"] == pytest.approx(0.6, abs=0.05) and first["delivered"] == pytest.approx(0.27, abs=0.03)
    assert {row["place"]: row["delivered"] for row in rails["Delivered against nominal"]}["rail 5"] == pytest.approx(
        0.45, abs=0.03
    )
    assert min(series(rails["Slowest rail"], "rail 4")) < DETECT.rail.slow
    assert min(series(rails["Slowest rail"], "rail 5")) > DETECT.rail.slow
    assert series(rails["Delivered"], "rail 5")[-1] == pytest.approx(0.45, abs=0.03)
    assert not rails["Findings"]
    assert [r["condition"] for r in Day(day, "rails", 14, 14.9)["Findings"]] == ["host/pcie-degraded"]


def congestion_by_an_incast(day: Board) -> None:
    """At 17:00 two hosts send more than the third drains."""
    congestion = Day(day, "congestion", 16.5, 17.4)
    assert congestion["Open congestion"] == [{"incast": 1, "pfc_storm": 0, "imbalance": 0, "collapse": 0}]
    what = [row["what"] for row in congestion["Roots and victims"]]
    assert what[0].startswith("congestion/incast") and what[1].strip() == f"└ victim {INCAST_LINK.a_device}"
    marked = series(congestion["Marks and notifications"], "ECN marked, received by NICs")
    assert max(marked) > 10 * min(marked)
    assert max(series(congestion["Marks and notifications"], "CNP handled")) > 10_000
    assert {row["frames"] for row in congestion["Pause frames by direction"]} == {0}
    assert not congestion["Ports with the most pause"] and not congestion["Queues"]
    assert max(row["rate"] for row in congestion["Discards"]) < 1
    assert max(row["uneven"] for row in congestion["Uneven uplinks"]) < DETECT.imbalance.uneven


def remediation_of_the_day(day: Board) -> None:
    """Shadow: nothing is out of service, and the guard of capacity denied a drain."""
    board = Day(day, "remediation")
    assert board["Kill switch"] == [{"active": 0}] and board.colors("Kill switch") == [HEALTHY]
    assert set(board["Remediations"][0].values()) == {0}
    assert {row["action"] for row in board["Decisions"]} >= {"repair link", "cordon host", "observe"}
    assert "surviving-capacity" in {row["constraint"] for row in board["Constraints that bound"]}
    assert {row["state"] for row in board["Decisions over time"]} >= {"shadow", "denied"}
    capacity = {row["place"]: row for row in board["Capacity against the floor"]}
    assert capacity["rail 2"]["lost"] == 1 and capacity["rail 2"]["surviving"] == pytest.approx(3 / 4)
    assert capacity["switch pod1-leaf1"]["surviving"] == 1
    assert {row["state"] for row in board["Time in each state"]} >= {"denied"}
    assert not board["Did the repair help"] and not board["Controls in effect"]
    assert {row["came_back"] for row in board["Did the action help"]} >= {0}


def job_that_was_hurt(day: Board) -> None:
    """The job lost a rail for an hour and a GPU; all of its life was observed."""
    job = Day(day, "job")
    assert job["Network of ${job}"] == [{"verdict": 3}] and job.colors("Network of ${job}") == [CRITICAL]
    assert job["Observed"][0]["seen"] > 0.98 and job.colors("Observed") == [HEALTHY]
    assert job["Size"] == [{"hosts": 3, "gpus": 24, "observed_s": 24 * HOUR}]
    assert {row["condition"] for row in job["What hurt"]} >= {"link/down", "host/gpu-fault"}
    assert job["GPU-hours lost"][0]["gpu_hours"] > 1
    assert job.states("Hosts", "pod1-host1") >= {"healthy", "critical"}
    assert series(job["Traffic against the fabric"], "the job")[0] == pytest.approx(0.45, abs=0.03)
    assert [row["host"] for row in job["Hosts of the job"]] == ["pod1-host1", "pod1-host2", "pod1-host3"]


def job_that_was_clean(day: Board) -> None:
    """Before the first fault the verdict is clean; in a time without samples it is not known, never clean."""
    assert Day(day, "job", 1, 3).colors("Network of ${job}") == [HEALTHY]
    later = Day(day, "job", 30, 31)
    assert later.colors("Network of ${job}") == [CRITICAL], "the link is still down"
    other = Day(day, "job", 30, 31, job="finetune-8b")
    assert other.colors("Network of ${job}") == [UNOBSERVED]
    assert other.states("Hosts", "pod1-host4") == {"unobserved"}


def desk_with_offenders(day: Board) -> None:
    """Every fault of hardware is listed; no score was published, and nothing is to be repaired in shadow."""
    desk = Day(day, "repair-desk")
    assert desk["To do"] == [{"to_repair": 0, "lemons": None, "forecasts": 0}]
    assert desk.colors("To do") == [HEALTHY, UNOBSERVED, HEALTHY]
    offenders = {row["subject"]: row for row in desk["Repeat offenders"]}
    assert offenders[subject(DOWN)]["findings"] == 2 and offenders[subject(DOWN)]["open"] == 1
    assert {(row["kind"], row["part"]) for row in desk["Parts of the fleet"]} == {
        ("nic", "MCX75310AAS-NEAT"), ("transceiver", "MMS4X00-NS"),
    }  # fmt: skip
    for title in ("Replace first", "Forecasts", "Lemons: links and hosts", "Cohorts: parts and firmware"):
        assert not desk[title]
    assert not desk["Which repair helped"]


def pipeline_of_the_day(day: Board) -> None:
    """Every stage was two seconds behind; hosts and switches were read once a minute."""
    pipeline = Day(day, "pipeline", 0, 24)
    assert pipeline["Watermark lag"][0]["lag"] == 2 and pipeline["Rejected"] == [{"rejected": 0}]
    assert pipeline["Sources"][0]["failing"] == 0 and pipeline["Sources"][0]["reachable"] >= 14
    assert {row["lag"] for row in pipeline.rows["Watermark lag"][1]} == {2}
    assert {row["stage"] for row in pipeline["Records processed"]} == {"measure", "correlate", "attribute", "decide"}
    assert {row["behind"] for row in pipeline["Records behind"]} == {0}
    rate = series(pipeline["Rows sampled"], "gnmi")
    assert sorted(rate)[len(rate) // 2] == pytest.approx(64 / 60, rel=0.1), "8 leaves of 6 ports, 2 spines of 8"
    assert max(row["delay"] for row in pipeline["Device to Kafka"]) < 5
    assert {row["kind"] for row in pipeline["Rows stored"]} >= {"port samples", "events", "findings"}
    assert {row["source"] for row in pipeline["Collectors"]} == {"gnmi", "nic", "host"}
    stored = {row["table"]: row["stored"] for row in pipeline["Storage"]}
    assert stored["sample_messages"] > 14 * 1400 and stored["samples"] > 100_000
    assert not pipeline["Sources that are not reached"] and not pipeline["Rejected messages"]


def infiniband_of_ethernet(day: Board) -> None:
    """The day has no port of InfiniBand: unknown, and neither zero nor green; a line states what would fill it."""
    ports = Day(day, "infiniband", 12, 23.99)
    assert set(ports.colors("Ports")) == {UNOBSERVED}
    assert "railsight collect ib" in ports["InfiniBand"][0]["note"]
    shown = ("InfiniBand", "Ports")
    assert not any(rows for title, answers in ports.rows.items() if title not in shown for rows in answers)


def finding_of_the_link(day: Board) -> None:
    """The evidence, each revision, and what was decided."""
    (row,) = (row for row in Day(day, "fabric", 12, 24)["Open findings"] if row["condition"] == "link/down")
    finding = Day(day, "finding", 22, 24, finding=row["id"][:12])
    explained = {line["item"]: line["value"] for line in finding["The finding, explained"]}
    assert explained["subject"] == subject(DOWN) and explained["evidence"]
    assert finding["History"][-1]["status"] == "open"
    assert [line["action"] for line in finding["Remediations"]][-1:] == ["repair link"]
    assert not finding["Explained by this finding"]
    assert finding.states("State of both ends", "A pod1-host1/mlx5_2") == {"up", "down"}
    assert series(finding["Traffic of the link"], "A sends")[-1] == 0
    unchosen = Day(day, "finding", 22, 24)
    assert unchosen["The finding, explained"] and unchosen["History"], "never blank: the worst open finding"


FACTS: dict[str, tuple[Callable[[Board], None], ...]] = {
    "fabric": (fabric_at_midnight,),
    "link": (link_that_is_down, link_that_gets_worse, link_that_flaps),
    "host": (host_with_a_slow_rail, host_with_a_narrow_link),
    "rails": (rails_with_a_straggler,),
    "congestion": (congestion_by_an_incast,),
    "infiniband": (infiniband_of_ethernet,),
    "remediation": (remediation_of_the_day,),
    "job": (job_that_was_hurt, job_that_was_clean),
    "repair-desk": (desk_with_offenders,),
    "pipeline": (pipeline_of_the_day,),
    "finding": (finding_of_the_link,),
}


@pytest.mark.parametrize("fact", [fact for facts in FACTS.values() for fact in facts], ids=lambda fact: fact.__name__)
def test_the_panels_show_what_happened(day: Board, fact: Callable[[Board], None]) -> None:
    """Each fact was put into the simulation."""
    fact(day)


def test_every_board_has_facts() -> None:
    """A new board needs its own."""
    assert set(FACTS) == set(BOARDS)


def test_a_day_after_the_pipeline_stopped_nothing_is_green(day: Board) -> None:
    """No state of a place and no tile is green where no sample and no progress came for a day."""
    for name in BOARDS:
        board = Day(day, name, 47, 48)
        for title, panel in board.panels.items():
            if panel["type"] == "stat" and title not in ("Newest row", "Findings lag", "Other", "To do"):
                assert HEALTHY not in board.colors(title), (name, title)
            if panel["type"] == "state-timeline":
                assert {state(panel, row["health"]).text for row in board[title]} <= {"unobserved", "critical"}, title
