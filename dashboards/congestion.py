"""Builds the Congestion dashboard: pause, marks, queues, imbalance, and each root finding with its victims."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, dashboard_of, finding_filters, folded, pods
from dashboards.limits import DETECT
from dashboards.links import CONGESTION, to_finding, to_link
from dashboards.looks import HEALTHY, SEVERITY, WARNING
from dashboards.panels import series, stat
from dashboards.queries import congestion as queries
from dashboards.queries.fabric import PODS
from dashboards.tables import Column, moment, table

_NOT_READ = "No collector reads this in this time range."


def board() -> build.Dashboard:
    """Return the dashboard."""
    return dashboard_of(
        "Congestion",
        CONGESTION,
        "Pause by direction, marks, queues, uneven uplinks, and each open congestion with its victims.",
        [pods(PODS), *finding_filters()],
        [*_panels(), folded("Marks, notifications and queues", _marks())],
        marks={"Findings": (queries.FINDING_TIMES, WARNING)},
    )


def _panels() -> list[Panel]:
    return [
        stat(
            "Open congestion",
            "Findings by kind. Grey: in the last two minutes the pipeline reported nothing, or no collector read what"
            " shows them: pause or waits for credits for PFC storms, also CNPs or retransmissions for collapse.",
            queries.COUNTS,
            [(0, HEALTHY), (1, WARNING)],
            width=12,
            height=5,
            titles={"pfc_storm": "PFC storm"},
        ),
        table(
            "Roots and victims",
            "Each congestion of the time range, below it what it explains and the hosts that it slows.",
            queries.TREE,
            {
                "what": Column("What", wrap=True),
                "severity": Column("Severity", 80, colors=SEVERITY), "since": moment("Since", links=to_finding()),
                "cause": Column("Cause", 100), "id": Column(hidden=True),
            },
            empty="No congestion is known in the time range.",
            height=13,
        ),
        series(
            "Pause frames by direction",
            "A host that pauses cannot take what arrives; a host that is paused is slowed by the fabric.",
            queries.PAUSED,
            unit="pps",
            empty=_NOT_READ,
        ),
        series("Discards", "Where ECN and pause do not slow the senders.", queries.DISCARDS, unit="pps",
               limits=[(DETECT.incast.drops_per_s, WARNING)], empty=_NOT_READ),
        series(
            "Uneven uplinks",
            "Of the ten most uneven switches, the uplink that is furthest from the mean. Dashed: congestion/imbalance,"
            " if the fullest uplink is busy.",
            queries.IMBALANCE,
            unit="percentunit",
            limits=[(DETECT.imbalance.uneven, WARNING)],
            empty="No switch with several uplinks in use was read in this time range.",
        ),
        table(
            "Ports with the most pause",
            "The average of the last ten minutes, by direction and priority; without one: the whole port (802.3x).",
            queries.MOST_PAUSED,
            {
                "device": Column("Device"), "port": Column("Port", 130, links=to_link()),
                "priority": Column("Priority", 80),
                "direction": Column("Direction", 100), "frames": Column("Mean of 10 min", 130, unit="pps"),
                "subject": Column(hidden=True),
            },
            empty="No port is known to have sent or received a pause frame in the last ten minutes.",
            width=24,
        ),
    ]  # fmt: skip


def _marks() -> list[Panel]:
    return [
        series(
            "Marks and notifications",
            "ECN marks of switches and at NICs, and congestion notifications. Dashed: a sender with so many is"
            " throttled (congestion/incast).",
            queries.MARKED,
            unit="pps",
            limits=[(DETECT.incast.cnp_per_s, WARNING)],
            empty=_NOT_READ,
            width=24,
        ),
        table(
            "Queues",
            "The deepest queues of the time range, and what they dropped.",
            queries.QUEUES,
            {
                "device": Column("Device"), "port": Column("Port", 130), "queue": Column("Queue", 70),
                "depth": Column("Depth", 90, unit="bytes"), "watermark": Column("Watermark", 100, unit="bytes"),
                "dropped": Column("Dropped", 90),
            },
            empty="No collector reads queues in this time range.",
            width=24,
        ),
    ]  # fmt: skip
