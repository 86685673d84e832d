"""Every detector has its package, its page, its runbook, and a labelled case in which it fires."""

import importlib
import pkgutil
from pathlib import Path

import pytest

from streams.detect import detectors
from streams.detect.detectors import DETECTORS
from streams.replay.score import score
from tests.contract.detect.cases import LABELLED, said

ROOT = Path(__file__).parents[3]
BY_SLUG = {detector.slug: detector for detector in DETECTORS}


def test_every_package_is_registered() -> None:
    """Each package of `streams.detect.detectors` has one DETECTOR, and all of them are in DETECTORS."""
    found = {
        importlib.import_module(f"{detectors.__name__}.{info.name}").DETECTOR.slug
        for info in pkgutil.iter_modules(detectors.__path__)
        if info.ispkg
    }
    assert found == set(BY_SLUG)
    assert len(DETECTORS) == len(BY_SLUG)


def test_every_detector_has_a_labelled_case() -> None:
    """A detector without a case could be one that never fires."""
    assert set(BY_SLUG) == set(LABELLED)


@pytest.mark.parametrize("slug", LABELLED)
def test_it_fires_in_its_case_and_invents_nothing(slug: str) -> None:
    """The labelled fault is found, by this detector, and nothing else is said that would count."""
    own = score(said(slug), [LABELLED[slug][1]])
    assert (own.precision, own.recall) == (1.0, 1.0)
    assert slug in {f.detector for f in said(slug)}


@pytest.mark.parametrize("slug", BY_SLUG)
def test_its_name_is_that_of_its_condition_and_of_its_package(slug: str) -> None:
    """Slug, enum and package differ only by case and punctuation; the docstrings of package and evaluation begin so."""
    name = f"{detectors.__name__}.{slug.replace('/', '_').replace('-', '_')}"
    assert importlib.import_module(name).DETECTOR is BY_SLUG[slug]
    assert BY_SLUG[slug].condition.slug == slug
    for module in (importlib.import_module(name), importlib.import_module(f"{name}.evaluate")):
        assert module.__doc__ is not None
        assert module.__doc__.startswith(f"{slug}: ")


@pytest.mark.parametrize("slug", LABELLED)
def test_it_has_a_page_and_a_runbook_that_name_it(slug: str) -> None:
    """The runbook is what every finding of it links to; the page says how it concludes."""
    name = f"{slug.replace('/', '-')}.md"
    for page in (ROOT / "docs/runbooks" / name, ROOT / "docs/detectors" / name):
        assert page.is_file(), page
        assert slug in page.read_text(encoding="utf-8"), page
