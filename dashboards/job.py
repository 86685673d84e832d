"""Builds the Job dashboard: the verdict on the network of one job, its coverage, and the faults during its life."""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

from dashboards.board import Panel, choice, dashboard_of, folded
from dashboards.links import JOB, to_host
from dashboards.looks import CRITICAL, HEALTHY, NEUTRAL, VERDICTS, WARNING
from dashboards.panels import series, stat, timeline, verdict
from dashboards.queries import job as queries
from dashboards.shared_tables import findings
from dashboards.tables import Column, moment, note, table

_NO_JOB = "The job did not run in this time range, or its hosts are not known."
_NO_SPEED = "No host's link with a speed (speed_bps in the inventory's links) was read in this time range."


def board() -> build.Dashboard:
    """Return the dashboard."""
    return dashboard_of(
        "Job",
        JOB,
        "Was the network clean for this job? railsight job prints the same, with the gaps of every port.",
        [choice("job", "Job", queries.JOBS)],
        _panels(),
        marks={"Findings": (queries.FINDING_TIMES, WARNING)},
    )


def _panels() -> list[Panel | build.Row]:
    return [*_verdict(), folded("Hosts of the job, and their traffic", _hosts())]


def _verdict() -> list[Panel]:
    return [
        note("Jobs", "How many jobs ran in the time range.", queries.NOTE),
        verdict(
            "Network of ${job}",
            "Not clean: a finding of a warning or worse about the network affected it; faults of hosts are below. Not"
            " known: less than 95 % of its time was observed, so that the absence of findings proves nothing.",
            queries.VERDICT,
            VERDICTS,
            width=8,
        ),
        stat(
            "Observed",
            "The share of its hosts' minutes with a sample.",
            queries.COVERAGE,
            [(0, CRITICAL), (0.5, WARNING), (0.95, HEALTHY)],
            unit="percentunit",
        ),
        stat(
            "GPU-hours lost",
            "Of its affected hosts, while a finding was open: GPUs x time x the share of capacity that it took.",
            queries.LOST,
            [(0, HEALTHY), (0.1, WARNING)],
            unit="h",
        ).decimals(2),
        stat(
            "Size",
            "Hosts and GPUs, and the seconds of its life in the time range.",
            queries.SIZE,
            [],
            width=8,
            titles={"gpus": "GPUs", "observed_s": "life"},
        )
        .override_by_name("observed_s", [_unit("dtdurations")])
        .override_by_name("hosts", NEUTRAL)
        .override_by_name("gpus", NEUTRAL)
        .override_by_name("observed_s", NEUTRAL),
        findings(
            "What hurt",
            "Findings that affected the job while it ran, roots and what they explain.",
            queries.FINDINGS,
            empty="No finding is known to have affected the job. Whether it was observed is shown above.",
        ),
    ]  # fmt: skip


def _hosts() -> list[Panel]:
    return [
        timeline(
            "Hosts",
            "The worst open finding at each host of the job; unobserved without a sample for a minute. Of a larger job,"
            f" the {queries.HOSTS_SHOWN} hosts with the worst findings.",
            queries.HOSTS,
            empty=_NO_JOB,
        ),
        series(
            "Traffic against the fabric",
            "What the NICs of the job send, of their speed, and those of all other hosts.",
            queries.AGAINST_FABRIC,
            unit="percentunit",
            empty=_NO_SPEED,
            width=9,
        ),
        table(
            "Hosts of the job",
            "The least observed first.",
            queries.PLACES,
            {
                "host": Column("Host", links=to_host()), "pod": Column("Pod", 90), "gpus": Column("GPUs", 60),
                "since": moment("Since"),
                "seen": Column("Observed", 130, unit="percentunit", gauge=1, decimals=0,
                               limits=[(None, CRITICAL), (0.95, HEALTHY)]),
                "last_sample": moment("Last sample"),
            },
            empty=_NO_JOB,
            width=15,
        ),
    ]  # fmt: skip


def _unit(name: str) -> "dashboard.DynamicConfigValue":
    return dashboard.DynamicConfigValue(id_val="unit", value=name)
