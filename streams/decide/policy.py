"""Declares the policy: the action for a condition and its number of occurrences, in one table.

The first occurrence is observed, because transient faults need no action; a link with repeated faults is drained; a
link that is down has no traffic to move and is repaired (DETECTION 4).
"""

from dataclasses import dataclass

from streams.wire.models import Action, Cause, Condition, Finding, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """The action from this number of occurrences of a condition; `hint` names the part to inspect."""

    condition: Condition
    occurrences: int
    action: Action
    hint: str = ""
    min_severity: Severity = Severity.INFO
    """The rule applies only to findings of at least this severity."""

    causes: tuple[Cause, ...] = ()
    """The rule applies only to findings with one of these causes; to all if it is empty."""


POLICY: tuple[Rule, ...] = (
    Rule(Condition.LINK_FLAP, 1, Action.OBSERVE),
    Rule(
        Condition.LINK_FLAP,
        2,
        Action.DRAIN_LINK,
        "repeated flaps: clean or reseat both ends, then replace the transceiver",
    ),
    Rule(Condition.LINK_DOWN, 1, Action.REPAIR_LINK, "transceiver or cable; first inspect the end that reported first"),
    Rule(Condition.LINK_DEGRADING, 1, Action.OBSERVE),
    Rule(
        Condition.LINK_DEGRADING,
        1,
        Action.DRAIN_LINK,
        "move traffic away, then replace the part that the finding's cause names: transceiver, cable or port",
        Severity.WARNING,
    ),
    Rule(Condition.RAIL_DEGRADED, 1, Action.OBSERVE, "the NIC, its slot or its transceiver; reset the NIC first"),
    Rule(
        Condition.CONGESTION_INCAST,
        1,
        Action.OBSERVE,
        "the placement of the job's traffic; if the cause is nic or pcie, the host",
    ),
    Rule(
        Condition.CONGESTION_IMBALANCE,
        1,
        Action.OBSERVE,
        "the distribution of flows: hash seed and fields, more queue pairs",
    ),
    Rule(
        Condition.CONGESTION_COLLAPSE,
        1,
        Action.OBSERVE,
        "what the named hosts share: leaves and spines, their job's traffic, the settings of ECN and pause",
    ),
    Rule(Condition.CONGESTION_PFC_STORM, 1, Action.OBSERVE, "the switch that pauses without being paused"),
    Rule(
        Condition.CONGESTION_PFC_STORM,
        1,
        Action.DRAIN_LINK,
        "the NIC that pauses without being paused: take its link out, reset it, and look at its host",
        causes=(Cause.NIC, Cause.PCIE),
    ),
    Rule(Condition.HOST_PCIE_DEGRADED, 1, Action.OBSERVE, "reseat the card or its riser at the next maintenance"),
    Rule(
        Condition.HOST_THERMAL_THROTTLE,
        1,
        Action.OBSERVE,
        "the cooling of the named part: heat sink, fan, airflow, a cable that blocks it; then the part",
    ),
    Rule(Condition.HOST_GPU_FAULT, 1, Action.OBSERVE, "none yet; repeated faults identify a bad GPU"),
    Rule(
        Condition.HOST_GPU_FAULT,
        1,
        Action.CORDON_HOST,
        "no new job on the host; reset the GPU, or restart the host if the GPU is off the bus; then field diagnostics",
        Severity.CRITICAL,
    ),
    Rule(
        Condition.LINK_MISCABLED,
        1,
        Action.OBSERVE,
        "the cable: exchange it with the cable of the port that it occupies",
    ),
    Rule(Condition.FLEET_VERSION_DRIFT, 1, Action.OBSERVE),
    Rule(
        Condition.FLEET_VERSION_DRIFT,
        1,
        Action.OBSERVE,
        "if the share is changing, stop the rollout; else install the version of the other devices",
        Severity.WARNING,
    ),
    Rule(Condition.DEVICE_DOWN, 1, Action.OBSERVE),
    Rule(Condition.TELEMETRY_STALE, 1, Action.OBSERVE),
)


def rule_for(finding: Finding) -> Rule | None:
    """Return the rule with the highest number of occurrences and severity that this finding reaches."""
    matching = [
        rule
        for rule in POLICY
        if rule.condition is finding.condition
        and (finding.occurrences or 1) >= rule.occurrences
        and finding.severity >= rule.min_severity
        and (not rule.causes or finding.cause in rule.causes)
    ]
    return max(matching, key=lambda rule: (rule.occurrences, rule.min_severity, bool(rule.causes)), default=None)
