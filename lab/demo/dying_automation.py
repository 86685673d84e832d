"""Runs the automation, and kills it once before an answer: `python -m lab.demo.dying_automation MARK …`.

MARK is a file with the id of that remediation, which another process writes; the file MARK.killed records the kill. The
other arguments are those of the automation.
"""

import os
import signal
import sys
from pathlib import Path

from railsight_automation import __main__ as automation
from railsight_automation.journal import Journal


class DyingJournal(Journal):
    """A journal whose process is killed before the outcome of one remediation is recorded."""

    mark = Path()

    def finish(self, remediation_id: str, outcome: str, detail: str, prior_values: dict[str, str]) -> None:
        killed = self.mark.with_suffix(".killed")
        is_marked = self.mark.exists() and self.mark.read_text(encoding="utf-8") == remediation_id
        if is_marked and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super().finish(remediation_id, outcome, detail, prior_values)


if __name__ == "__main__":
    DyingJournal.mark = Path(sys.argv.pop(1))
    automation.__dict__["Journal"] = DyingJournal
    sys.exit(automation.main())
