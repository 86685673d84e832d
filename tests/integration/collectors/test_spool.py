"""Kafka away under load and the collector killed meanwhile: what was promised is there, in order, and once."""

from pathlib import Path

from tests.integration.collectors.outage import play


async def test_an_outage_with_a_kill_in_it_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Each device's samples are whole and in order; what the spool sends again is known by its identity.

    tests/bench/outage.py plays the same for a minute.
    """
    outcome = await play(tmp_path, outage_s=8, cadence_s=0.5)
    assert (outcome.missing, outcome.disordered, outcome.twice_downstream) == (0, 0, 0)
    assert outcome.twice > 0
    assert [result.refused for result in outcome.runs] == [0, 0, 0]
    assert all(result.spooled > 0 for result in outcome.runs[:2])
    assert outcome.complaints < 500  # thousands a second, where the producer asks without a pause who leads
    assert len({result.run for result in outcome.runs}) == 3
