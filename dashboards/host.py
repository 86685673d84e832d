"""Builds the Host dashboard: one host's rails compared with their peers, its parts, kernel events and jobs."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, choice, dashboard_of, folded
from dashboards.limits import DETECT
from dashboards.links import HOST, to_job, to_link
from dashboards.looks import CRITICAL, HEALTHY, INFO, PORT_STATES, RAIL_COLORS, UNOBSERVED, WARNING
from dashboards.panels import series, timeline
from dashboards.queries import host as queries
from dashboards.shared_tables import findings
from dashboards.tables import Column, moment, table

_NOT_READ = "No collector reads this of the host in this time range."
_PCIE = {"full": HEALTHY, "below": WARNING}


def board() -> build.Dashboard:
    """Return the dashboard."""
    panels: list[Panel | build.Row] = [
        *_rails(), *_around(),
        folded("NICs: RoCE, PCIe and modules (${nics})", _nics()),
        folded("GPUs: heat, errors, NVLinks and power (${gpus})", _gpus()),
    ]  # fmt: skip
    return dashboard_of(
        "Host",
        HOST,
        "One host: its rails against their peers, NICs, PCIe, GPUs, heat, kernel events and jobs.",
        [
            choice("host", "Host", queries.HOSTS),
            choice("nics", "NICs", queries.HAS_NICS, hidden=True),
            choice("gpus", "GPUs", queries.HAS_GPUS, hidden=True),
        ],
        panels,
        marks={"Findings": (queries.FINDING_TIMES, WARNING), "Remediations": (queries.REMEDIATION_TIMES, INFO)},
    )


def _rails() -> list[Panel]:
    return [
        table(
            "${host}",
            "Where it is, and whether it is read.",
            queries.ABOUT,
            {"item": Column("Item", 120), "value": Column("Value")},
            empty="The inventory of this time range has no such host.",
            height=10,
            width=6,
        ),
        timeline(
            "Rails",
            "The worst open finding of each rail, critical while it is down; unobserved without a sample for a minute.",
            queries.RAILS,
            empty="The inventory has no rail of this host.",
            height=10,
            width=18,
        ),
        table(
            "Links",
            "Each rail with its switch port, its state, and the share of its speed that it sent in two minutes.",
            queries.LINKS_OF_HOST,
            {
                "rail": Column("Rail", 135, links=to_link()), "port": Column("Port", 95),
                "switch_port": Column("Switch port"),
                "state": Column("State", 90, colors=PORT_STATES),
                "used": Column("Sends", 110, unit="percentunit", gauge=1, decimals=0),
                "subject": Column(hidden=True),
            },
            empty="The inventory has no link of this host.",
            height=11,
        ),
        series(
            "Rails against their peers",
            "What each rail sends, as a share of the median of the same rail of the pod's other hosts. Dashed: below it"
            " rail/degraded calls a rail slow.",
            queries.AGAINST_PEERS,
            unit="percentunit",
            limits=[(DETECT.rail.slow, WARNING)],
            colors=RAIL_COLORS,
            empty="The host or its peers are idle or not read, or the inventory has no speed of their links.",
            height=11,
        ),
        findings(
            "Findings",
            "All findings at the host or its links that were open in the time range.",
            queries.FINDINGS,
            empty="No finding at this host is known in the time range.",
        ),
    ]  # fmt: skip


def _around() -> list[Panel]:
    return [
        series("Sends", "By rail.", queries.SENT, unit="bps", colors=RAIL_COLORS, empty=_NOT_READ),
        table(
            "Jobs",
            "What ran on the host in the time range.",
            queries.JOBS,
            {
                "job": Column("Job", links=to_job()), "since": moment("Since"), "until": moment("Until"),
                "state": Column("State", 80, colors={"runs": HEALTHY, "over": UNOBSERVED}),
            },
            empty="No job is known on this host in the time range.",
        ),
        table(
            "Kernel and link events",
            "What the kernel log and the link state reported, the newest first.",
            queries.KERNEL,
            {
                "at": moment("At"), "kind": Column("Kind", 120), "part": Column("Part", 120),
                "code": Column("Code", 60), "detail": Column("Detail", wrap=True),
            },
            empty="No event of this host is known in the time range.",
            height=6,
            width=24,
        ),
    ]  # fmt: skip


def _nics() -> list[Panel]:
    return [
        series(
            "RoCE",
            "What the NICs count of lost, repeated and slowed packets, EFA's and ionic's too. Dashed: slow restarts by"
            " rail/degraded.",
            queries.ROCE,
            unit="pps",
            limits=[(DETECT.rail.restarts_per_s, WARNING)],
            empty=_NOT_READ,
        ),
        series(
            "NICs wait for PCIe",
            "The share of time. Dashed: from there on the host is the cause of what its rail shows.",
            queries.STALLS,
            unit="percentunit",
            limits=[(DETECT.rail.stalled, WARNING)],
            empty=_NOT_READ,
        ),
        table(
            "PCIe links",
            "What each NIC and GPU trained, of what it can.",
            queries.PCIE,
            {
                "part": Column("Part"), "lanes": Column("Lanes", 70), "lanes_possible": Column("of", 60),
                "gtps": Column("GT/s", 70), "gtps_possible": Column("of", 60),
                "state": Column("State", 80, colors=_PCIE),
            },
            empty=_NOT_READ,
        ),
        series(
            "Module heat", "Dashed: the limit of host/thermal-throttle.", queries.MODULE_HEAT, unit="celsius",
            limits=[(DETECT.thermal.module_limit_c, CRITICAL)], least=None, empty=_NOT_READ,
        ),
    ]  # fmt: skip


def _gpus() -> list[Panel]:
    return [
        series(
            "GPU heat", "Dashed: the limit of host/thermal-throttle.", queries.GPU_HEAT, unit="celsius",
            limits=[(DETECT.thermal.gpu_limit_c, CRITICAL)], least=None, empty=_NOT_READ,
        ),
        series("GPU errors", "In each bucket.", queries.GPU_ERRORS, bars=True, empty=_NOT_READ),
        series(
            "NVLinks", "Active links of each GPU.", queries.NVLINKS, unit="short", least=None, empty=_NOT_READ,
        ),
        series(
            "Power limit", "In force, and as configured.", queries.POWER_LIMIT, unit="watt", least=None,
            empty=_NOT_READ,
        ),
    ]  # fmt: skip
