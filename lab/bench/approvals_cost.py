"""Measures one control while many approvals are open: `decide` evaluates the guards again for each of them.

The stage itself is measured, as it processes a message. The control excludes a target that no approval has, so that
none is revoked. Caps and rates are high, and a person approves nothing.
"""

import random
from collections.abc import Iterable
from time import perf_counter, thread_time
from typing import NamedTuple

from lab.bench.statistics import Spread, spread_of
from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    Condition,
    Control,
    ControlKind,
    Endpoint,
    Finding,
    PortStates,
    Remediation,
    RemediationState,
    Severity,
    Status,
    Subject,
)

_SETTLED_NS = 11 * 10**9
_UNLIMITED = 10**6


class ApprovalsTiming(NamedTuple):
    """The CPU time and the duration of one control, in milliseconds, and the approvals that were open."""

    approvals: int
    cpu: Spread
    duration: Spread


def measure_approvals(
    topology: Topology,
    states: Iterable[PortStates],
    links: list[TopologyLink],
    now_ns: int,
    approvals: int,
    chance: random.Random,
    controls: int = 20,
) -> ApprovalsTiming:
    """Approve drains of random links of these, and time controls."""
    stage = Decide(DecideParams(
        mode="act", fabric_cap=_UNLIMITED, fabric_cap_ratio=1, pod_cap=_UNLIMITED, pod_cap_ratio=1,
        actions_per_hour=_UNLIMITED,
    ))  # fmt: skip
    stage.start_epoch(1)
    stage.set_topology(topology)
    stage.recover([])
    stage.process(list(states))
    stage.process([_finding(link, now_ns) for link in chance.sample(links, min(approvals, len(links)))])
    outputs = stage.advance_watermark(now_ns + _SETTLED_NS)
    is_open = (
        isinstance(one.message, Remediation) and one.message.state is RemediationState.APPROVED for one in outputs
    )
    count = sum(is_open) // 2  # each is on two topics
    cpu_ms, durations_ms = [], []
    for number in range(controls + 1):
        control = Control(f"exclude-{number}", ControlKind.EXCLUDE, "device:none", now_ns, actor="bench", endless=True)
        began, cpu_began = perf_counter(), thread_time()
        revoked = stage.process([control])
        cpu_ms.append((thread_time() - cpu_began) * 1e3)
        durations_ms.append((perf_counter() - began) * 1e3)
        assert not revoked
    return ApprovalsTiming(count, spread_of(cpu_ms[1:]), spread_of(durations_ms[1:]))


def _finding(link: TopologyLink, now_ns: int) -> Finding:
    subject = Subject(link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, pod=link.pod)
    return Finding(
        f"finding/{link.id}", 1, False, Condition.LINK_FLAP, Status.OPEN, Severity.WARNING, subject, now_ns, now_ns,
        detected_at_ns=now_ns, confidence=0.95, occurrences=2, detector="link/flap", summary="flaps",
    )  # fmt: skip
