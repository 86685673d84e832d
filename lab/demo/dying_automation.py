"""Runs the automation, and kills it once between a drain and its answer: `python -m lab.demo.dying_automation MARK …`.

MARK is the file with the id of that remediation; while it exists, the automation runs as usual. The other arguments are
those of the automation.
"""

import os
import signal
import sys
from pathlib import Path

from railsight_automation import __main__ as automation
from railsight_automation.journal import Journal


class DyingJournal(Journal):
    """A journal whose process is killed before the first outcome of a drain is recorded."""

    mark = Path()

    def finish(self, remediation_id: str, outcome: str, detail: str, prior_values: dict[str, str]) -> None:
        is_drain = self.intents[remediation_id].remediation.action == "DRAIN_LINK"
        if is_drain and outcome == "DONE" and not self.mark.exists():
            self.mark.write_text(remediation_id, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        super().finish(remediation_id, outcome, detail, prior_values)


if __name__ == "__main__":
    DyingJournal.mark = Path(sys.argv.pop(1))
    automation.__dict__["Journal"] = DyingJournal
    sys.exit(automation.main())
