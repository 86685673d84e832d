"""The health of a process: named checks that its event loop evaluates once a second.

The event loop writes the results, and a separate thread serves them (status_server.py), so a process with a stuck loop
still reports that it is not live. An unknown result counts as not ready.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class HealthParams(BaseModel):
    """The limits after which a process counts as stuck or as not ready, in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stuck_s: ClassVar[float] = 60.0
    """Not live: for this time the event loop does not run, or no record is processed while records wait. Longer than
    the takeover of the largest state, during which a stage processes nothing."""
    undelivered_s: ClassVar[float] = 10.0
    """Not ready: for this time records wait to be written, or the brokers do not answer."""
    probe_s: ClassVar[float] = 5.0
    """The interval at which the brokers are asked for the end offsets of the inputs."""


Check = Callable[[], str]
"""Returns a short description of the problem, empty if there is none."""

_NOT_STARTED = "start: not complete"


class Health:
    """The checks of one process, and the results of their last evaluation."""

    def __init__(self, params: HealthParams, now_s: Callable[[], float]) -> None:
        self.params = params
        self.now_s = now_s
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._phase = _NOT_STARTED
        self._not_live, self._not_ready = "", _NOT_STARTED
        self._beat_s = now_s()

    def live_while(self, name: str, check: Check) -> None:
        """Add a check of liveness; a problem means that the process must be restarted."""
        self._live[name] = check

    def ready_while(self, name: str, check: Check) -> None:
        """Add a check of readiness, or replace the check of the same name."""
        self._ready[name] = check

    def started(self) -> None:
        """Start reporting the results of the checks, after all checks were added."""
        self._phase = ""

    def stopping(self) -> None:
        """Report the process as not ready from now on."""
        self._phase = self._not_ready = "stop: under way"

    def beat(self) -> None:
        """Evaluate all checks; the event loop calls this once a second."""
        self._not_live = _first_problem(self._live)
        self._not_ready = self._phase or _first_problem(self._ready)
        self._beat_s = self.now_s()

    def liveness_problem(self) -> str:
        """Return the failing check of liveness with its problem; empty while the process is live."""
        since_s = self.now_s() - self._beat_s
        if since_s > self.params.stuck_s:
            return f"event-loop: has not turned for {since_s:.0f} s"
        return self._not_live

    def readiness_problem(self) -> str:
        """Return the failing check with its problem; empty while the process is live and ready."""
        return self.liveness_problem() or self._not_ready


def _first_problem(checks: Mapping[str, Check]) -> str:
    for name, check in checks.items():
        try:
            problem = check()
        except Exception as error:  # noqa: BLE001 — a check that raises has an unknown result, which is a problem
            problem = f"cannot be evaluated: {error!r}"
        if problem:
            return f"{name}: {' '.join(problem.split())}"
    return ""
