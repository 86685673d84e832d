"""Runs sequences in the foreground, in a folder that is given or temporary."""

import asyncio
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.chaos.faults import needs_of
from lab.chaos.isolation import enter_namespaces
from lab.chaos.params import ChaosParams
from lab.chaos.report import Report
from lab.chaos.run import ChaosSession
from lab.chaos.scene import Need
from streams.runtime.foreground import run_until_signalled
from streams.wire.errors import Misconfigured, Retry


@contextmanager
def run_folder(given: Path | None) -> Iterator[Path]:
    """Yield the given folder, which stays, or a temporary one; raise Misconfigured when the given one is not empty."""
    if given is None:
        with tempfile.TemporaryDirectory(prefix="railsight-chaos-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    if given.exists() and any(given.iterdir()):
        raise Misconfigured(f"{given} is not empty; choose another folder, or remove it")
    given.mkdir(parents=True, exist_ok=True)
    yield given.resolve()


def sequences(seed: int, faults: Sequence[str], seconds: float, runs: int, *, each: bool) -> list[ChaosParams]:
    """Return the sequences: `runs` consecutive seeds, for each fault alone if `each`."""
    groups = [(name,) for name in faults] if each else [tuple(faults)]
    return [ChaosParams(number, group, seconds) for group in groups for number in range(seed, seed + runs)]


def run_chaos(
    folder: Path,
    runs: Sequence[ChaosParams],
    report_line: Callable[[str], None],
    on_report: Callable[[Report], None],
    *,
    share: bool = True,
) -> bool:
    """Carry out sequences and pass each report on; return False when a signal ended them.

    With `share` they follow each other on one stack, until one breaks a promise: the next begins on a new one, so that
    what the failure left is not counted against it.
    """
    if Need.NAMESPACES in needs_of(name for params in runs for name in params.faults):
        enter_namespaces()
    work = _run_all(folder, deque(runs), report_line, on_report, share=share)
    return asyncio.run(run_until_signalled(work)) is not None


async def _run_all(
    folder: Path,
    runs: deque[ChaosParams],
    report_line: Callable[[str], None],
    on_report: Callable[[Report], None],
    *,
    share: bool,
) -> bool:
    while runs:
        own = folder / f"stack-{runs[0].seed}-{len(runs)}"
        own.mkdir()
        needs = needs_of(name for params in runs for name in params.faults) if share else needs_of(runs[0].faults)
        async with ChaosSession.started(own, runs[0].seed, needs, report_line) as session:
            is_usable = True
            while runs and is_usable:
                report = await _report(session, runs.popleft())
                on_report(report)
                is_usable = share and report.is_passed
    return True


async def _report(session: ChaosSession, params: ChaosParams) -> Report:
    """Return the report of a sequence; one that could not be judged is a breach, and the next one is carried out."""
    try:
        return await session.run(params)
    except (Retry, Misconfigured) as error:
        return Report(params, (), 0, 0, 0, 0, {}, [f"not judged: {error}"])
