"""Builds the InfiniBand dashboard: ports that wait for credits, and ports with errors and retries, worst first."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, dashboard_of, folded, pods
from dashboards.limits import DETECT
from dashboards.links import INFINIBAND, to_link
from dashboards.looks import CRITICAL, HEALTHY, NEUTRAL, UNOBSERVED, WARNING
from dashboards.panels import series, stat
from dashboards.queries import infiniband as queries
from dashboards.queries.fabric import PODS
from dashboards.tables import Column, note, table

_NOT_READ = "No InfiniBand port was read in this time range."


def board() -> build.Dashboard:
    """Return the dashboard."""
    return dashboard_of(
        "InfiniBand",
        INFINIBAND,
        "Ports of InfiniBand switches: waits for credits, uncorrected symbols, retries and bit errors, worst first.",
        [pods(PODS)],
        _panels(),
    )


def _panels() -> list[Panel | build.Row]:
    return [*_waits(), folded("Errors, retries and bit errors", _errors())]


def _waits() -> list[Panel]:
    paused = DETECT.storm.paused
    return [
        note("InfiniBand", "Whether a collector reads InfiniBand.", queries.NOTE),
        stat(
            "Ports",
            "Ports in the last five minutes: those that wait for credits as long as congestion/pfc-storm takes for a"
            " storm, those that lost symbols, and those that discarded packets at the head of a queue.",
            queries.COUNTS,
            [(0, HEALTHY), (1, WARNING)],
            width=24,
            titles={"waiting": "wait for credits", "losing": "lost symbols", "discarding": "discarded packets"},
        ).override_by_name("read", NEUTRAL),
        table(
            "Waits for credits",
            "The share of the last five minutes in which each port had data and no credits, the longest first. The"
            " share needs the speed of the inventory. Discarded: packets that waited too long at the head of a queue.",
            queries.WAITS,
            {
                "device": Column("Device"), "port": Column("Port", 110, links=to_link()),
                "waits": Column("Waits", 150, unit="percentunit", gauge=1, decimals=0,
                                limits=[(None, UNOBSERVED), (paused, CRITICAL)]),
                "bps": Column("Not sent", 100, unit="bps"), "discards": Column("Discarded", 90),
                "subject": Column(hidden=True),
            },
            empty="No InfiniBand port was read in the last five minutes.",
            height=9,
        ),
        series(
            "Waiting for credits",
            "The share of time, of the ten ports that waited longest. Dashed: a storm by congestion/pfc-storm, if the"
            " port sends almost nothing.",
            queries.WAITING,
            unit="percentunit",
            limits=[(paused, CRITICAL)],
            empty=_NOT_READ,
            height=9,
        ),
    ]  # fmt: skip


def _errors() -> list[Panel]:
    return [
        table(
            "Errors",
            "Each port in the time range, the worst first: symbols that no correction recovered, codes that PLR"
            " repeats, and the highest bit error ratio before and after FEC.",
            queries.ERRORS,
            {
                "device": Column("Device"), "port": Column("Port", 150, links=to_link()),
                "uncorrected": Column("Uncorrected", 120, limits=[(None, UNOBSERVED), (1, WARNING)]),
                "damaged": Column("Received damaged", 150), "beyond": Column("Beyond FEC", 110),
                "retries": Column("Sent again", 110), "raw": Column("BER before FEC", 130, unit="sci", decimals=1),
                "effective": Column("BER after FEC", 130, unit="sci", decimals=1), "subject": Column(hidden=True),
            },
            empty=_NOT_READ,
            height=10,
            width=24,
        ),
        series("Uncorrected symbols", "Of the ten ports with the most.", queries.UNCORRECTED, unit="suffix:/s",
               empty=_NOT_READ),
        series("PLR retries", "Codes sent again, of the ten ports with the most.", queries.RETRIES, unit="suffix:/s",
               empty="No InfiniBand port with PLR (since HDR) was read in this time range."),
        series("Bit errors before FEC", "Of the ten ports with the highest ratio; zero is not drawn.", queries.BER,
               unit="sci", logarithmic=True, width=24,
               empty="No InfiniBand port has a bit error above zero, or none was read, in this time range."),
    ]  # fmt: skip
