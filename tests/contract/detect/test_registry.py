"""Every detector that there is has its module, its page, its runbook, and a labelled case in which it fires."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import streams.detect.detectors
from streams.replay.score import score
from streams.wire.models import Condition
from tests.contract.detect.cases import LABELLED, said

ROOT = Path(__file__).parents[3]
MODULES = {
    module.SLUG: module
    for name in (info.name for info in pkgutil.iter_modules(streams.detect.detectors.__path__) if info.ispkg)
    if hasattr(module := importlib.import_module(f"streams.detect.detectors.{name}.evaluate"), "SLUG")
}


def test_every_detector_has_a_labelled_case() -> None:
    """A module that concludes something without a case here could be one that never fires."""
    assert set(MODULES) == set(LABELLED)


@pytest.mark.parametrize("slug", LABELLED)
def test_it_fires_in_its_case_and_invents_nothing(slug: str) -> None:
    """The labelled fault is found, by this detector, and nothing else is said that would count."""
    own = score(said(slug), [LABELLED[slug][1]])
    assert (own.precision, own.recall) == (1.0, 1.0)
    assert slug in {f.detector for f in said(slug)}


@pytest.mark.parametrize("slug", LABELLED)
def test_its_name_is_that_of_its_condition_and_of_its_module(slug: str) -> None:
    """Slug, enum and file differ only by case and punctuation."""
    module = MODULES[slug]
    assert module.__name__ == f"streams.detect.detectors.{slug.replace('/', '_').replace('-', '_')}.evaluate"
    assert slug in {condition.slug for condition in Condition if condition}
    assert module.__doc__ is not None and module.__doc__.startswith(f"{slug}: ")


@pytest.mark.parametrize("slug", LABELLED)
def test_it_has_a_page_and_a_runbook_that_name_it(slug: str) -> None:
    """The runbook is what every finding of it links to; the page says how it concludes."""
    name = f"{slug.replace('/', '-')}.md"
    for page in (ROOT / "docs/runbooks" / name, ROOT / "docs/detectors" / name):
        assert page.is_file(), page
        assert slug in page.read_text(encoding="utf-8"), page
