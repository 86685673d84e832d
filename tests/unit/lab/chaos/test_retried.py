"""Reads of Kafka and ClickHouse are repeated while they fail, within a bound; a sequence without a verdict fails."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiokafka.errors import KafkaTimeoutError

from lab.chaos import run as session
from lab.chaos.run import retried, run_chaos, sequences
from lab.chaos.stack import ChaosParams
from streams.wire.errors import Misconfigured, Retry
from tests.fakes.chaos_session import SessionWithoutProcesses

if TYPE_CHECKING:
    from lab.chaos.report import Report


@pytest.mark.parametrize(
    "error", [KafkaTimeoutError("Failed to get offsets by times in 5000 ms"), ConnectionResetError()]
)
def test_a_read_is_repeated_until_it_succeeds(error: Exception) -> None:
    """A busy broker does not end the run."""
    errors = [error, error]

    async def read() -> int:
        if errors:
            raise errors.pop()
        return 7

    assert asyncio.run(retried(read)) == 7


def test_a_read_that_never_succeeds_ends_with_its_error() -> None:
    """So does one that never returns."""

    async def fail() -> None:
        raise KafkaTimeoutError("Failed to get offsets")

    async def hang() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Retry, match="Failed to get offsets"):
        asyncio.run(retried(fail, 0.01))
    with pytest.raises(Retry, match="no answer"):
        asyncio.run(retried(hang, 0.01))


class _Unreadable(SessionWithoutProcesses):
    """A session in which the first sequence cannot be judged."""

    error: Exception

    async def run(self, params: ChaosParams) -> "Report":
        if params.seed == 2:
            raise self.error
        report: Report = await super().run(params)
        return report


@pytest.mark.parametrize("error", [Retry("Kafka and ClickHouse were not usable"), Misconfigured("broker 3 ended")])
def test_a_sequence_that_cannot_be_judged_is_a_breach_and_the_next_one_is_run(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one begins on a new stack; so it does after a server that does not start again."""
    monkeypatch.setattr(_Unreadable, "error", error, raising=False)
    monkeypatch.setattr(session, "ChaosSession", _Unreadable)
    _Unreadable.started_with = []
    reports: list[Report] = []
    assert run_chaos(tmp_path, sequences(2, ("poison",), 5, 3, each=False), print, reports.append)
    assert reports[0].breaches == [f"not judged: {error}"]
    assert [report.is_passed for report in reports] == [False, False, True]
    assert _Unreadable.started_with == [2, 3, 4]
