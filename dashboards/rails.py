"""Builds the Rails dashboard: the used share of each rail's speed, and the stragglers of the fabric."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, dashboard_of, finding_filters, pods, text
from dashboards.limits import DETECT
from dashboards.links import FIRST, RAILS, to_finding, to_host, to_link, to_rails
from dashboards.looks import CRITICAL, HEALTHY, INFO, NEUTRAL, RAIL_COLORS, UNOBSERVED, WARNING
from dashboards.panels import series, stat
from dashboards.queries import rails as queries
from dashboards.queries.fabric import PODS
from dashboards.shared_tables import findings
from dashboards.tables import Column, matrix, table

_NOT_READ = "No rail was read in this time range."
_NO_SPEED = "No rail with a speed (speed_bps in the inventory's links) was read in this time range."


def board() -> build.Dashboard:
    """Return the dashboard."""
    return dashboard_of(
        "Rails",
        RAILS,
        "Rails against their peers: stragglers ranked across the fabric, delivered against nominal.",
        [pods(PODS), text("rail", "Rail", "The number of a rail; empty: all."), *finding_filters()],
        _panels(),
        marks={"Findings": (queries.FINDING_TIMES, WARNING)},
    )


def _panels() -> list[Panel]:
    slow = DETECT.rail.slow
    return [
        stat(
            "Slow",
            "Rails below the share of their peers' median at which rail/degraded calls them slow, in five minutes.",
            queries.COUNTS,
            [(0, HEALTHY), (1, WARNING)],
            width=18,
            titles={"slow": "slow rails", "even": "as fast as their peers", "idle": "idle, or with too few peers"},
        )
        .override_by_name("even", NEUTRAL)
        .override_by_name("idle", NEUTRAL),
        stat(
            "Not read",
            "Rails of the inventory without traffic counters in the last five minutes, from neither end.",
            queries.UNOBSERVED,
            [(0, HEALTHY), (1, INFO)],
            width=6,
        ),
        matrix(
            "Delivered against nominal",
            "What the rails of each pod send, of their speed, in the last five minutes.",
            queries.MATRIX,
            empty=_NOT_READ,
            column=Column("", 90, unit="percentunit", decimals=0),
            links=to_rails(FIRST),
            height=6,
        ),
        matrix(
            "Delivered by plane",
            "What each rail sends in each plane, of the plane's speed, in the last five minutes.",
            queries.PLANES,
            empty="No rail with planes was read in this time range.",
            column=Column("", 90, unit="percentunit", decimals=0),
            links={},
            height=6,
            width=12,
        ),
        table(
            "Lost rails and planes",
            "The rails of hosts that are down, or with a plane that is: the planes that are left, of all.",
            queries.LOST,
            {
                "pod": Column("Pod", 80), "host": Column("Host", links=to_host()), "rail": Column("Rail", 70),
                "planes": Column("Left", 70),
                "left": Column("Of the NIC", 110, unit="percentunit", gauge=1, decimals=0, limits=[(None, WARNING)]),
                "lost": Column("Lost planes", 100), "id": Column("Finding", 100, links=to_finding("id")),
            },
            empty="No rail of a host is known to be down, and no plane of one.",
            height=6,
            width=12,
        ),
        table(
            "Stragglers",
            "The slowest rails first: what each sends of the median of the same rail in its pod, and of its speed.",
            queries.STRAGGLERS,
            {
                "pod": Column("Pod", 90), "host": Column("Host", links=to_host()),
                "rail": Column("Rail", 70, links=to_link()),
                "share": Column("Of its peers", 170, unit="percentunit", gauge=1.2, decimals=0,
                                limits=[(None, CRITICAL), (slow, HEALTHY)]),
                "bps": Column("Sends", 100, unit="bps"),
                "delivered": Column("Of its speed", 170, unit="percentunit", gauge=1, decimals=0,
                                    limits=[(None, UNOBSERVED)]),
                "finding": Column("Finding", 100, links=to_finding("finding")),
                "subject": Column(hidden=True),
            },
            empty=_NOT_READ,
            height=12,
            width=24,
        ),
        series("Delivered", "What all hosts send on each rail, of its speed.", queries.DELIVERED, unit="percentunit",
               empty=_NO_SPEED, colors=RAIL_COLORS),
        series(
            "Slowest rail",
            "The slowest host of each rail, of the median of all. Beyond twelve hours that is the median of the pods'"
            " medians. Dashed: below it rail/degraded calls it slow.",
            queries.SLOWEST,
            unit="percentunit",
            limits=[(slow, WARNING)],
            colors=RAIL_COLORS,
            empty=_NO_SPEED,
        ),
        findings(
            "Findings",
            "Slow rails and what slows them.",
            queries.FINDINGS,
            empty="No finding of a rail is known in the time range.",
        ),
    ]  # fmt: skip
