"""A session of the fault suite without processes."""

from typing import Any, ClassVar

from lab.chaos.stack import ChaosParams


class SessionWithoutProcesses:
    """A session without processes; sequences of odd seeds break a promise."""

    started_with: ClassVar[list[int]] = []

    def __init__(self, seed: int) -> None:
        self.started_with.append(seed)

    @classmethod
    def started(cls, _folder: object, seed: int, _needs: object, _report_line: object) -> "SessionWithoutProcesses":
        return cls(seed)

    async def __aenter__(self) -> "SessionWithoutProcesses":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def run(self, params: ChaosParams) -> Any:
        class Report:
            seed, is_passed = params.seed, params.seed % 2 == 0

        return Report
