"""The example of each detector's section on its family's page, as `railsight explain` prints it for the labelled case.

`python -m tests.contract.detect.pages` writes it into the pages, and begins the section of a detector that has none
with the docstring of its module; test_pages.py holds the examples to the cases.
"""

import importlib
from pathlib import Path
from typing import Any

from streams.detect import detectors
from streams.detect.detector import Detector
from streams.detect.detectors import DETECTORS
from streams.detect.thresholds import Thresholds
from streams.report.render import finding_report
from tests.contract.detect.cases import LABELLED, case_findings
from tests.worlds.observations import last

ROOT = Path(__file__).parents[3]
OPENING, CLOSING = "### Example\n\n```text\n", "```\n"


def page(slug: str) -> Path:
    """Return the page of a detector's family, which has the section `## slug`."""
    return ROOT / "docs/detectors" / f"{slug.partition('/')[0]}.md"


def example(slug: str) -> str:
    """Return the final finding of the labelled case, as text."""
    found = last(case_findings(slug))
    own = next(finding for finding in found if finding.detector == slug and not finding.parent_id)
    children = [finding for finding in found if finding.parent_id == own.id]
    return "".join(
        f"{text}\n" for text in finding_report(own, children, [], sum(f.id == own.id for f in case_findings(slug)))
    )


def _section(slug: str) -> tuple[str, str, str]:
    """Return the page before the detector's section, the section, and the page after it."""
    text = page(slug).read_text(encoding="utf-8")
    begin = text.index(f"\n## {slug}\n") + 1
    end = text.find("\n## ", begin) + 1 or len(text)
    return text[:begin], text[begin:end], text[end:]


def shown(slug: str) -> str:
    """Return the example of the section."""
    return _section(slug)[1].partition(OPENING)[2].partition(CLOSING)[0]


def _begin_section(detector: Detector[Any]) -> None:
    """Append a section to the page of the family, which is begun if there is none."""
    path, slug = page(detector.slug), detector.slug
    text = path.read_text("utf-8") if path.exists() else f"# {slug.partition('/')[0].capitalize()} detectors\n"
    module = f"{detectors.__name__}.{slug.replace('/', '_').replace('-', '_')}"
    first, *rest = (importlib.import_module(module).__doc__ or "").removeprefix(f"{slug}: ").strip().split("\n\n")
    paragraphs = [one.replace("\n", " ") for one in (f"{first[:1].upper()}{first[1:]}", *rest)]
    names = (n for n, one in detector.params.model_fields.items() if not isinstance(one.default, Thresholds))
    if listed := ", ".join(f"`{name}`" for name in names):
        paragraphs.append(f"**Settings.** `[detect.{detector.section}]` {listed}.")
    path.write_text("\n\n".join((text.rstrip(), f"## {slug}", *paragraphs)) + "\n", "utf-8")


def _write() -> None:
    for detector in DETECTORS:
        if not page(detector.slug).exists() or f"\n## {detector.slug}\n" not in page(detector.slug).read_text("utf-8"):
            _begin_section(detector)
    for slug in LABELLED:
        before, section, after = _section(slug)
        head, found, rest = section.partition(OPENING)
        tail = rest.partition(CLOSING)[2] if found else "\n"
        head = head if found else f"{head.rstrip()}\n\n"
        page(slug).write_text(f"{before}{head}{OPENING}{example(slug)}{CLOSING}{tail}{after}", encoding="utf-8")


if __name__ == "__main__":
    _write()
