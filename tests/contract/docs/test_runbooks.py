"""Each detected condition has a runbook with the sections that an operator expects."""

from pathlib import Path

import pytest

from streams.detect.detectors import DETECTORS
from streams.fabric.inventory_rows import HOST_LINK
from streams.notify.alert import first_steps
from streams.notify.page import step_names
from streams.wire.models import Cause

FOLDER = Path(__file__).parents[3] / "docs"
STEP_NAMES = {*(cause.label for cause in Cause), HOST_LINK, "fabric-link"}
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


@pytest.mark.parametrize("slug", [detector.slug for detector in DETECTORS])
def test_a_step_begins_with_the_label_of_a_cause_or_a_role(slug: str) -> None:
    """A page and `explain` choose the step by these names; another spelling would show the step of another cause."""
    steps = [line.split(". ", 1)[1] for line in first_steps(slug).splitlines() if line[:1].isdigit()]
    names = {name for step in steps for name in step_names(step) if " " not in name}
    assert names <= STEP_NAMES
