"""Each detected condition has a runbook with the sections that an operator expects."""

from pathlib import Path

import pytest

from streams.detect.detectors import DETECTORS

FOLDER = Path(__file__).parents[3] / "docs"
NAMES = sorted(detector.slug.replace("/", "-") for detector in DETECTORS)


def test_every_detector_has_a_runbook_and_every_runbook_a_detector() -> None:
    """The page that an alert links to exists."""
    assert sorted(page.stem for page in (FOLDER / "runbooks").glob("*.md")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_has_the_required_sections(name: str) -> None:
    """A page has the meaning, first checks, exclusions, actions and when to do nothing."""
    page = (FOLDER / f"runbooks/{name}.md").read_text()
    assert page.startswith(f"# {name.replace('-', '/', 1)}: ")
    assert "**What it means.**" in page and "**When it pages.**" in page
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## First checks", "## Already excluded", "## What to do", "## When to do nothing"]
    assert "railsight explain ID" in page
    assert len(page.splitlines()) < 70
