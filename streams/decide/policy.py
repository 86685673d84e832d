"""The policy: from a condition and how often it came back to an action.

One visible table. First observe; what is transient is left alone; a repeat offender is moved out of the traffic's way;
a link that is down has no traffic to move and goes to the repair desk (DETECTION 4).
"""

from dataclasses import dataclass

from streams.wire.models import Action, Cause, Condition, Finding, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """From `occurrences` of a condition upwards, do this; `hint` names the part to look at."""

    condition: Condition
    occurrences: int
    action: Action
    hint: str = ""
    min_severity: Severity = Severity.INFO
    """Only of findings that are at least so severe."""

    causes: tuple[Cause, ...] = ()
    """Only of findings with one of these causes; of all where it is empty."""


POLICY: tuple[Rule, ...] = (
    Rule(Condition.LINK_FLAP, 1, Action.OBSERVE),
    Rule(
        Condition.LINK_FLAP, 2, Action.DRAIN_LINK, "a repeat offender: clean or reseat both ends, then the transceiver"
    ),
    Rule(Condition.LINK_DOWN, 1, Action.REPAIR_LINK, "transceiver or cable; look at the end that told first"),
    Rule(Condition.LINK_DEGRADING, 1, Action.OBSERVE),
    Rule(
        Condition.LINK_DEGRADING,
        1,
        Action.DRAIN_LINK,
        "move traffic off, then the part that the finding's cause names: transceiver, cable or port",
        Severity.WARNING,
    ),
    Rule(Condition.RAIL_DEGRADED, 1, Action.OBSERVE, "the NIC, its slot or its transceiver; reset the NIC first"),
    Rule(
        Condition.CONGESTION_INCAST,
        1,
        Action.OBSERVE,
        "how the job's traffic is laid out; where the cause is nic or pcie, its host",
    ),
    Rule(
        Condition.CONGESTION_IMBALANCE,
        1,
        Action.OBSERVE,
        "how flows are spread: hash seed and fields, more queue pairs",
    ),
    Rule(
        Condition.CONGESTION_COLLAPSE,
        1,
        Action.OBSERVE,
        "what the hosts that are named share: their leaves and spines, their job's traffic, how ECN and pause are set",
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
    Rule(Condition.HOST_GPU_FAULT, 1, Action.OBSERVE, "nothing yet; by its repeats a GPU is a lemon"),
    Rule(
        Condition.HOST_GPU_FAULT,
        1,
        Action.CORDON_HOST,
        "no new job here; reset the GPU, and restart the host where it is off the bus; then field diagnostics",
        Severity.CRITICAL,
    ),
    Rule(Condition.LINK_MISCABLED, 1, Action.OBSERVE, "the cable: exchange it with the one whose place it took"),
    Rule(Condition.FLEET_VERSION_DRIFT, 1, Action.OBSERVE),
    Rule(
        Condition.FLEET_VERSION_DRIFT,
        1,
        Action.OBSERVE,
        "stop the rollout where the share moves; else bring these devices to the version that the others run",
        Severity.WARNING,
    ),
    Rule(Condition.DEVICE_DOWN, 1, Action.OBSERVE),
    Rule(Condition.TELEMETRY_STALE, 1, Action.OBSERVE),
)


def rule_for(finding: Finding) -> Rule | None:
    """The rule of the highest repeat count and severity that this finding reaches."""
    fitting = [
        rule
        for rule in POLICY
        if rule.condition is finding.condition
        and (finding.occurrences or 1) >= rule.occurrences
        and finding.severity >= rule.min_severity
        and (not rule.causes or finding.cause in rule.causes)
    ]
    return max(fitting, key=lambda rule: (rule.occurrences, rule.min_severity, bool(rule.causes)), default=None)
