"""Every detector has all that makes it usable: page, runbook, fault, labelled case and dashboard panel."""

import importlib
import pkgutil
import re
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
from orjson import loads
from pydantic import ValidationError

from dashboards.queries.fabric import OPEN_FINDINGS
from lab.bench.detection.fabrics import FABRICS
from lab.world.faults import FAULT_OF, FAULTS
from streams.detect import detectors
from streams.detect.correlate.stage import Correlate
from streams.detect.detector import Detector, JobDomain
from streams.detect.detectors import DETECTORS
from streams.detect.params import DetectParams
from streams.locality.impairments import of_findings
from streams.replay.score import score
from streams.report.job.impact import domain_of
from streams.wire.models import Cause, Finding
from tests.contract.detect.cases import FURTHER, LABELLED, case_findings, case_messages
from tests.contract.detect.pages import page
from tests.worlds.live_stages import LiveStages, in_order
from tests.worlds.observations import T0
from tests.worlds.small_world import placed, play, recorded

ROOT = Path(__file__).parents[3]
BY_SLUG = {detector.slug: detector for detector in DETECTORS}


def test_every_module_is_registered() -> None:
    """Each module of `streams.detect.detectors` has one DETECTOR, and all of them are in DETECTORS."""
    found = {
        importlib.import_module(f"{detectors.__name__}.{info.name}").DETECTOR.slug
        for info in pkgutil.iter_modules(detectors.__path__)
    }
    assert found == set(BY_SLUG)
    assert len(DETECTORS) == len(BY_SLUG)


def test_every_detector_has_a_labelled_case() -> None:
    """A detector without a case could be one that never fires."""
    assert set(BY_SLUG) == set(LABELLED)


@pytest.mark.parametrize("slug", LABELLED)
def test_it_fires_in_its_case_and_invents_nothing(slug: str) -> None:
    """This detector finds the labelled fault, and no other finding counts."""
    own = score(case_findings(slug), [LABELLED[slug][1]])
    assert (own.precision, own.recall) == (1.0, 1.0)
    assert slug in {f.detector for f in case_findings(slug)}


@pytest.mark.parametrize("name", FURTHER)
def test_it_finds_its_further_faults_and_invents_nothing(name: str) -> None:
    """One fault shows in several counters: this detector finds it by each, and nothing else counts or pages."""
    world, truth = FURTHER[name]
    played = play(in_order(recorded(world, truth.end_ns / 1e9 - T0 + 900)), world.topology)
    found = [one for one in played if isinstance(one, Finding)]
    own = score(found, [truth])
    assert (own.precision, own.recall) == (1.0, 1.0), own
    assert name.split(maxsplit=1)[0] in {one.detector for one in found}


@pytest.mark.parametrize(
    "slug",
    ["link/flap", "link/down", "link/degrading", "congestion/incast", "device/down", "host/thermal-throttle"],
)
def test_a_fault_of_the_laboratory_is_a_case_of_its_detector(slug: str) -> None:
    """A detector without a case of its own is tested by it."""
    world = placed(FAULT_OF[slug])
    (truth,) = world.injected[0].truths
    played = play(in_order(recorded(world, truth.end_ns / 1e9 - T0 + 900)), world.topology)
    own = score([one for one in played if isinstance(one, Finding)], [truth])
    assert (own.precision, own.recall) == (1.0, 1.0), own


@pytest.mark.parametrize("slug", BY_SLUG)
def test_its_name_is_that_of_its_condition_and_of_its_module(slug: str) -> None:
    """Slug, enum and module differ only by case and punctuation; the docstring of the module begins so."""
    name = f"{detectors.__name__}.{slug.replace('/', '_').replace('-', '_')}"
    assert importlib.import_module(name).DETECTOR is BY_SLUG[slug]
    assert BY_SLUG[slug].condition.slug == slug
    assert (importlib.import_module(name).__doc__ or "").startswith(f"{slug}: ")


@pytest.mark.parametrize("slug", LABELLED)
def test_it_has_a_section_of_a_page_and_a_runbook(slug: str) -> None:
    """Every finding links to the runbook; the detector's section on the page of its family describes the evaluation."""
    assert slug in (ROOT / "docs/runbooks" / f"{slug.replace('/', '-')}.md").read_text(encoding="utf-8")
    assert f"\n## {slug}\n" in page(slug).read_text(encoding="utf-8")


@pytest.mark.parametrize("slug", BY_SLUG)
def test_its_thresholds_are_a_section_of_the_configuration(slug: str) -> None:
    """`[detect.<section>]` has the package's own parameters, and refuses unknown keys by name."""
    detector = BY_SLUG[slug]
    assert isinstance(DetectParams().section(detector), detector.params)
    with pytest.raises(ValidationError, match="no_such_threshold"):
        DetectParams(**{detector.section: {"no_such_threshold": 1}})


@pytest.mark.parametrize("slug", BY_SLUG)
def test_the_simulation_injects_it_and_the_benchmark_scores_it(slug: str) -> None:
    """`bench detection` and the simulator draw from FAULTS: a detector without a fault there would never be scored."""
    assert FAULT_OF[slug] in FAULTS
    assert FAULT_OF[slug].condition is BY_SLUG[slug].condition


@pytest.mark.parametrize("slug", BY_SLUG)
def test_other_rooms_read_its_meaning_from_its_descriptor(slug: str) -> None:
    """Its effect on placement, its domain in the verdict on a job, its history for lemons, and which fabrics hide it.

    The descriptor has no default for any of them, and names only fabrics that exist.
    """
    detector = BY_SLUG[slug]
    finding = next(one for one in case_findings(slug) if one.detector == slug and not one.is_closed)
    effects = {one.effect for one in of_findings([replace(finding, shadow=None)])}
    assert effects == ({detector.placement} if detector.placement is not None else set())
    of_cause = replace(finding, cause=Cause.UNKNOWN, subject=replace(finding.subject, role=""))
    assert domain_of(of_cause) is detector.job_domain
    assert detector.lemon is None or detector.job_domain is not JobDomain.NEITHER
    assert detector.hidden_in.keys() <= FABRICS.keys()
    required = {one.name for one in fields(Detector) if one.init and one.default is MISSING is one.default_factory}
    assert {"placement", "job_domain", "lemon", "hidden_in"} <= required


def test_the_dashboard_shows_every_detector() -> None:
    """The wall lists findings by detector, and no query of it selects some of them."""
    text = OPEN_FINDINGS.sql
    assert "detector AS condition" in text
    assert re.search(r"detector\s*(!?=|IN\b|NOT\b|LIKE\b)", text) is None


@pytest.mark.parametrize("slug", [d.slug for d in DETECTORS if d.pod is not None])
def test_a_state_of_its_own_is_in_the_snapshot_of_correlate(slug: str) -> None:
    """A snapshot is taken in the middle of its labelled case, and read back the same."""
    live = LiveStages(LABELLED[slug][0].topology)
    with_state = []
    for message in case_messages(slug):
        live.process(message)
        data = live.stages[1].snapshot()
        if slug in loads(data)["detectors"]:
            with_state.append(data)
    assert with_state
    for data in with_state[:: max(1, len(with_state) // 20)]:
        successor = Correlate(DetectParams())
        successor.restore(data)
        assert loads(successor.snapshot()) == loads(data)
