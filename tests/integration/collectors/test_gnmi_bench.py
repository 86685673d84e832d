"""Tests the switch of `railsight bench gnmi`: it sends all its rounds, also beyond a client's first window."""

import asyncio

from lab.bench.gnmi_clients import Meter, target, undecoded
from lab.bench.gnmi_target import UPDATES


async def test_a_client_reads_all_rounds() -> None:
    """Ten rounds are ten times as large as the first window of HTTP/2."""
    with target(10 * UPDATES) as port:
        meter = Meter(10 * UPDATES)
        await asyncio.wait_for(undecoded(port, meter, ""), 60)
    assert meter.cost["count"] == 9 * UPDATES
