"""Tests the spool with Kafka unavailable under load and a collector that is killed meanwhile."""

import os
from pathlib import Path

from tests.integration.collectors.outage import play


async def test_an_outage_with_a_kill_loses_no_acknowledged_record(tmp_path: Path) -> None:
    """Each device's samples are complete and in order; records that the spool resends are recognized by their identity.

    `RAILSIGHT_OUTAGE_S` sets the length of the outage.
    """
    outcome = await play(tmp_path, outage_s=float(os.environ.get("RAILSIGHT_OUTAGE_S", "8")), cadence_s=0.5)
    assert (outcome.missing, outcome.disordered, outcome.twice_downstream) == (0, 0, 0)
    assert outcome.twice > 0
    assert [result.refused for result in outcome.runs] == [0, 0, 0]
    assert all(result.spooled > 0 for result in outcome.runs[:2])
    assert outcome.complaints < 500  # thousands per second if the producer requests the leader without a pause
    assert len({result.run for result in outcome.runs}) == 3
