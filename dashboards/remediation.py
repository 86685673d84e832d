"""Builds the Remediation dashboard: decisions and their reasons, surviving capacity, and results."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, dashboard_of
from dashboards.limits import DECIDE
from dashboards.links import REMEDIATION, to_finding, to_link
from dashboards.looks import CRITICAL, HEALTHY, INFO, STATES, WARNING
from dashboards.panels import series, stat
from dashboards.queries import remediation as queries
from dashboards.queries.fabric import REMEDIATION_TIMES
from dashboards.shared_tables import waiting
from dashboards.tables import Column, moment, table


def board() -> build.Dashboard:
    """Return the dashboard."""
    panels = [*_now(), *_capacity(), *_results()]
    return dashboard_of(
        "Remediation",
        REMEDIATION,
        "Decisions by state and constraint, capacity against its floor, time in each state, and whether it helped.",
        [],
        panels,
        marks={"Remediations": (REMEDIATION_TIMES, INFO)},
    )


def _now() -> list[Panel]:
    return [
        stat(
            "Kill switch",
            "Active kill switches; while there is one, no action is taken. Grey: the pipeline has reported nothing.",
            queries.KILL_SWITCH,
            [(0, HEALTHY), (1, CRITICAL)],
        ),
        stat(
            "Remediations",
            "The newest state of each, at the end of the time range.",
            queries.COUNTS,
            [(0, HEALTHY), (1, WARNING)],
            width=20,
            titles={
                "waiting": "wait for approval", "in_progress": "in progress", "out_of_service": "out of service",
                "need_a_person": "need a person",
            },
        ),
        waiting(queries.WAITING),
        table(
            "Decisions",
            "Those of the time range and those that are not over, the newest first; for a denial the constraint, the"
            " observed value and its limit.",
            queries.REMEDIATIONS,
            {
                "decided_at": moment("Changed"),
                "action": Column("Action", 120, links=to_finding("finding") | to_link("target")),
                "state": Column("State", 90, colors=STATES), "target": Column("Target", 260),
                "constraint": Column("Constraint", 145), "surviving": Column("Surviving", 85),
                "actor": Column("By", 90), "why": Column("Reason, and repair", wrap=True),
                "finding": Column(hidden=True),
            },
            empty="No decision is known in this time range.",
            height=11,
            width=24,
        ),
        series(
            "Decisions over time",
            "Revisions by their state.",
            queries.DECISIONS,
            bars=True,
            colors=STATES,
            empty="No decision is known in this time range.",
        ),
        table(
            "Constraints that bound",
            "What denied or delayed decisions of the time range; docs/remediation.md has each.",
            queries.CONSTRAINTS,
            {
                "constraint": Column("Constraint", 140), "times": Column("Times", 60),
                "remediations": Column("Of", 45), "guard": Column("Guard", 60),
                "newest": Column("Newest", wrap=True), "target": Column("Target", 220, wrap=True),
            },
            empty="No constraint is known to have bound in this time range.",
        ),
    ]  # fmt: skip


def _capacity() -> list[Panel]:
    return [
        table(
            "Capacity against the floor",
            "The links of each switch, plane and rail that are neither drained nor down; the least first. The bar"
            " changes its color at the floor of the setting capacity_floor.",
            queries.CAPACITY,
            {
                "place": Column("Group"), "links": Column("Links", 60), "lost": Column("Lost", 60),
                "surviving": Column("In service", 220, unit="percentunit", gauge=1, decimals=0,
                                    limits=[(None, CRITICAL), (DECIDE.capacity_floor, HEALTHY)]),
            },
            empty="No inventory is in effect in this time range, so that no capacity is known.",
            height=10,
        ),
        table(
            "Time in each state",
            "How long remediations of the time range were in each state, and how many are in it now.",
            queries.TIME_IN_STATE,
            {
                "state": Column("State", 110, colors=STATES), "times": Column("Times"),
                "middle_s": Column("Median", 130, unit="dtdurations"),
                "longest_s": Column("Longest", 130, unit="dtdurations"), "now": Column("Now", 60),
            },
            empty="No remediation is known in a state that lasts in this time range.",
            height=10,
        ),
    ]  # fmt: skip


def _results() -> list[Panel]:
    return [
        table(
            "Did the repair help",
            "Outcomes of the repairs of 90 days by step: the target was restored and ended its probation, did not"
            " qualify, or relapsed.",
            queries.HELPED,
            {
                "step": Column("Step"), "helped": Column("Helped", 75),
                "not_qualified": Column("Not qualified", 110), "relapsed": Column("Relapsed", 85),
                "share": Column("Helped of all", 130, unit="percentunit", gauge=1, decimals=0),
            },
            empty="No outcome of a repair became known in 90 days.",
        ),
        table(
            "Did the action help",
            "Targets that were drained or closed in the time range: whose finding was over afterwards, and whose came"
            " back.",
            queries.RECURRED,
            {
                "action": Column("Action"), "times": Column("Times", 70), "over_after": Column("Over afterwards", 130),
                "came_back": Column("Came back", 100),
            },
            empty="No action is known to have been carried out in this time range.",
        ),
        table(
            "Controls in effect",
            "What people set: kill switches, maintenance, exclusions and answers.",
            queries.CONTROLS,
            {
                "kind": Column("Kind", 110), "subject": Column("Subject", 260), "actor": Column("By", 100),
                "reason": Column("Reason", wrap=True), "at": moment("Since"), "until": moment("Until"),
            },
            empty="No control is known to be in effect in this time range.",
            width=24,
        ),
    ]  # fmt: skip
