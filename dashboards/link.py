"""Builds the Link dashboard: both ends of one link, compared with the expected values."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, choice, dashboard_of, folded, text
from dashboards.limits import DETECT
from dashboards.links import LINK, to_finding, to_host
from dashboards.looks import CRITICAL, INFO, PORT_LEVELS, PORT_STATES, STATES, WARNING
from dashboards.panels import series, timeline
from dashboards.queries import link as queries
from dashboards.shared_tables import findings
from dashboards.tables import Column, moment, table

_NO_LINK = "No link of the inventory is selected."
_NOT_READ = "No collector reads this of the link in this time range."


def board() -> build.Dashboard:
    """Return the dashboard."""
    link = text("link", "Link", "Its id, as link:host/port--leaf/port; empty: the link with the worst open finding.")
    panels: list[Panel | build.Row] = [
        *_ends(), *_faults(),
        folded("Optics, bit errors, FEC and retries (${optics})", _optics()),
        folded("Pause, credits and trimmed packets (${pauses})", _pauses()),
    ]  # fmt: skip
    return dashboard_of(
        "Link",
        LINK,
        "One link from both ends. Without a choice: the link with the worst open finding.",
        [
            link,
            choice("subject", "Subject", queries.SUBJECT, hidden=True),
            choice("optics", "Optics", queries.HAS_OPTICS, hidden=True),
            choice("pauses", "Pauses", queries.HAS_PAUSES, hidden=True),
        ],
        panels,
        marks={"Findings": (queries.FINDING_TIMES, WARNING), "Remediations": (queries.REMEDIATION_TIMES, INFO)},
    )


def _ends() -> list[Panel]:
    return [
        table(
            "${subject}",
            "Both ends by the inventory, the newest state that each reports within an hour, and the part in each port.",
            queries.ENDS,
            {
                "side": Column("End", 50), "device": Column("Device", links=to_host("device")),
                "port": Column("Port", 120), "state": Column("State", 95, colors=PORT_STATES),
                "role": Column("Role", 90), "rail": Column("Rail", 50), "plane": Column("Plane", 60),
                "pod": Column("Pod", 80), "speed_bps": Column("Speed", 80, unit="bps"),
                "part": Column("Part", 150), "serial": Column("Serial", 110), "firmware": Column("Firmware", 100),
                "last_sample": moment("Last sample"),
            },
            empty=_NO_LINK,
            height=5,
            width=24,
        ),
        timeline(
            "State of both ends",
            "Up, shut by configuration, down; unobserved where no sample has its state for a minute.",
            queries.STATES,
            levels=PORT_LEVELS,
            empty=_NO_LINK,
            height=5,
        ),
        findings(
            "Findings",
            "All findings of the link that were open in the time range.",
            queries.FINDINGS,
            empty="No finding of this link is known in the time range.",
        ),
    ]  # fmt: skip


def _faults() -> list[Panel]:
    return [
        series(
            "Traffic",
            "What each end receives and sends, against the speed of the link.",
            queries.TRAFFIC,
            queries.SPEED,
            unit="bps",
            dashed="nominal",
            empty=_NOT_READ,
        ),
        series("Errors", "By kind and end.", queries.ERRORS, unit="suffix:/s", empty=_NOT_READ),
        series(
            "Flaps",
            "How often each end went down, or changed its state, in each bucket.",
            queries.FLAPS,
            bars=True,
            empty=_NOT_READ,
        ),
        table(
            "Forecasts",
            "What of the link gets worse, and when it reaches its limit with 95 % confidence.",
            queries.FORECAST,
            {
                "metric": Column("Metric", 140, links=to_finding()),
                "value": Column("Now", 100, unit="sci", decimals=1),
                "threshold": Column("Limit", 90, unit="sci", decimals=1), "reaches": moment("Reaches it"),
                "within": Column("Within", wrap=True), "id": Column(hidden=True),
            },
            empty="No trend of this link is known to reach its limit within a week.",
            height=8,
        ),
        table(
            "Remediations",
            "The newest state of each decision on this link.",
            queries.REMEDIATIONS,
            {
                "decided_at": moment("Changed"), "action": Column("Action", 110),
                "state": Column("State", 90, colors=STATES), "actor": Column("By", 90),
                "why": Column("Reason, and repair", wrap=True),
            },
            empty="No decision on this link is known.",
            height=6,
            width=24,
        ),
    ]  # fmt: skip


def _optics() -> list[Panel]:
    degrading = DETECT.degrading
    return [
        series(
            "Bit errors before and after FEC",
            "Each end as it reads them. Dashed lines: where link/degrading opens and where it is healthy again; the"
            " forecast's course to its limit, with the courses of the earliest and the latest time (95 %).",
            queries.BER,
            queries.BER_COURSE,
            unit="sci",
            logarithmic=True,
            limits=[(degrading.ber_clear, WARNING), (degrading.ber, CRITICAL)],
            dashed="^(forecast|interval).*",
            empty=_NOT_READ,
        ),
        series(
            "Optical power",
            "The lowest of each lane in each bucket. Dashed: the alarms that the module states, and a forecast.",
            queries.LIGHT,
            queries.LIGHT_LIMITS,
            queries.LIGHT_COURSE,
            unit="dBm",
            least=None,
            dashed=".*(alarm|warning|forecast|interval).*",
            empty=_NOT_READ,
        ),
        series("FEC", "What forward error correction repaired, and what it could not.", queries.FEC, unit="suffix:/s",
               logarithmic=True, empty=_NOT_READ),
        series(
            "Link-level retry",
            "Frames that each end sends again (LLR of Ultra Ethernet, PLR of InfiniBand), or receives damaged: not"
            " lost. Lost are the frames that a sender discards.",
            queries.RETRIES,
            unit="suffix:/s",
            empty="No collector reads a retry of this link in this time range.",
        ),
    ]  # fmt: skip


def _pauses() -> list[Panel]:
    return [
        series(
            "Time paused",
            "The share of time in which each end is paused, or pauses the other, by priority. Dashed: a storm by"
            " congestion/pfc-storm.",
            queries.PFC,
            unit="percentunit",
            limits=[(DETECT.storm.paused, CRITICAL)],
            empty=_NOT_READ,
        ),
        series("Pause frames", "Where no time of pause is read, frames are all there is.", queries.PAUSE, unit="pps",
               empty=_NOT_READ),
        series(
            "Waits for credits",
            "What each InfiniBand end did not send for lack of credits, against the speed of the link: at the speed, it"
            " waits all the time.",
            queries.WAITS,
            queries.WAITS_LIMIT,
            unit="bps",
            dashed="nominal",
            empty="No collector reads waits for credits of this link in this time range.",
            width=8,
        ),
        series(
            "Credits in use",
            "Credits of Ultra Ethernet (CBFC) that the far end has not freed, by virtual channel.",
            queries.CREDITS,
            empty="No collector reads credits of this link in this time range.",
            width=8,
        ),
        series(
            "Trimmed packets",
            "Packets that a switch cut to their headers instead of dropping them. Lost are those that it drops then.",
            queries.TRIMMED,
            unit="pps",
            empty="No collector reads trimmed packets of this link in this time range.",
            width=8,
        ),
    ]  # fmt: skip
