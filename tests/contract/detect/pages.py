"""The example of each detector's page, as `railsight explain` prints it for the detector's labelled case.

`python -m tests.contract.detect.pages` writes it into the pages; test_pages.py holds them to it.
"""

from pathlib import Path

from streams.report.render import finding_report
from tests.contract.detect.cases import LABELLED, case_findings
from tests.worlds.observations import last

ROOT = Path(__file__).parents[3]
OPENING, CLOSING = "## Example\n\n```text\n", "```\n"


def page(slug: str) -> Path:
    """Return the page of a detector."""
    return ROOT / "docs/detectors" / f"{slug.replace('/', '-')}.md"


def example(slug: str) -> str:
    """Return the final finding of the labelled case, as text."""
    found = last(case_findings(slug))
    own = next(finding for finding in found if finding.detector == slug and not finding.parent_id)
    children = [finding for finding in found if finding.parent_id == own.id]
    return "".join(
        f"{text}\n" for text in finding_report(own, children, [], sum(f.id == own.id for f in case_findings(slug)))
    )


def shown(slug: str) -> str:
    """Return the example of the page."""
    _, _, rest = page(slug).read_text(encoding="utf-8").partition(OPENING)
    return rest.partition(CLOSING)[0]


def _write() -> None:
    for slug in LABELLED:
        text = page(slug).read_text(encoding="utf-8")
        head, found, rest = text.partition(OPENING)
        tail = rest.partition(CLOSING)[2] if found else ""
        head = head if found else f"{head.rstrip()}\n\n"
        page(slug).write_text(f"{head}{OPENING}{example(slug)}{CLOSING}{tail}", encoding="utf-8")


if __name__ == "__main__":
    _write()
