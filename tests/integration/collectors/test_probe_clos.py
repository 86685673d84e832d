"""Real packets over a Clos of namespaces: a lossy link and a lost flow are named, a host at fault is no network."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streams.wire.models import Condition
from tests.fixtures.namespace_clos import namespace_clos, reason_to_skip
from tests.fixtures.probed_clos import ProbedClos

if TYPE_CHECKING:
    from streams.fabric.ids import Port

SKIPPED = reason_to_skip()
pytestmark = [pytest.mark.skipif(bool(SKIPPED), reason=SKIPPED), pytest.mark.timeout(900)]
WITHIN_S = 60
BUSY_S = 60
"""For reports of a busy machine to arrive; what is asserted is the time of the finding, not of this process."""


async def test_a_link_that_drops_one_percent_is_named_within_a_minute_and_no_other(tmp_path: Path) -> None:
    """No finding before; then the link with its direction, by the time of the probes."""
    with namespace_clos() as clos:
        async with ProbedClos(clos, tmp_path / "inventory") as own:
            await own.traced()
            await own.windows(2, 20 + BUSY_S)
            assert own.findings() == []
            began_ns = max(report.end_ns for report in own.reports)
            clos.drop("p0-spine1", 'iifname "d2" numgen random mod 1000 < 10')
            assert await own.until(lambda: bool(own.findings()), WITHIN_S + BUSY_S)
            await own.windows(2, 20 + BUSY_S)
            named = {(one.condition, one.subject.id) for one in own.findings()}
            assert named == {(Condition.PATH_LOSS, "link:p0-leaf2/u1--p0-spine1/d2")}
            (found,) = own.findings()
            assert (found.detected_at_ns or 0) - began_ns <= (WITHIN_S + 10) * 10**9
            assert "into p0-spine1/d2" in found.evidence[0].statement


async def test_one_flow_that_is_dropped_is_named_with_its_place(tmp_path: Path) -> None:
    """The 5-tuple, and the link after the last hop that answers; all other flows are fine."""
    with namespace_clos() as clos:
        async with ProbedClos(clos, tmp_path / "inventory") as own:
            await own.traced()
            key = next(key for key in own.agents["h00"].prober.flow_keys if key.rail.leaf != key.target.leaf)
            report = next(report for report in reversed(own.reports) if report.device == "h00")
            flow = next(
                n
                for n, port in enumerate(report.flow_source_port)
                if port == key.source_port
                and report.address[report.flow_source[n]] == key.rail.address
                and report.address[report.flow_target[n]] == key.target.address
            )
            place = sum(report.flow_forward_hops[:flow]) + sum(report.flow_reverse_hops[:flow])
            ports = {wire.upper_address: wire.upper for wire in clos.shape.wires()}
            entered: Port = ports[report.address[report.hop[place + 1] - 1]]
            clos.drop(
                entered.device,
                f"ip saddr {key.rail.address} ip daddr {key.target.address} udp sport {key.source_port}"
                f" udp dport {own.agents['h00'].prober._params.port}",
            )
            assert await own.until(lambda: bool(own.findings()), WITHIN_S + BUSY_S)
            await own.windows(1, 10 + BUSY_S)
            (found,) = own.findings()
            assert found.condition is Condition.PATH_LOSS
            assert found.subject.z is not None
            assert (found.subject.z.device, found.subject.z.port) == entered
            statement = found.evidence[0].statement
            assert f"source port {key.source_port}, are lost" in statement
            assert f"into {entered.device}/{entered.port}" in statement


async def test_a_slow_and_a_stopped_host_are_not_blamed_on_the_network(tmp_path: Path) -> None:
    """Without a fault nothing is found; neither with a host behind a slow queue, nor with one that answers nothing."""
    with namespace_clos() as clos:
        async with ProbedClos(clos, tmp_path / "inventory") as own:
            await own.traced()
            await own.windows(2, 20 + BUSY_S)
            assert own.findings() == []
            for port in ("r0", "r1"):
                clos.delay("h03", port)
            await own.stop("h05")
            await own.windows(6, 60 + BUSY_S)
            assert own.findings() == []
