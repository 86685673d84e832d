"""docs/signals.md has every signal, with the detectors that read it by the code, or the reason why none does."""

from streams.detect.detectors import DETECTORS
from streams.fabric.catalogue import Metric
from streams.wire.models import EventKind
from tests.contract.detect.signals import DERIVED, EVENTS, PAGE, REASONS, SHARED, STORAGE, modules, page, readers


def test_the_page_is_that_of_the_code() -> None:
    """A metric that is read by another detector changes it: run `python -m tests.contract.detect.signals`."""
    assert page() == PAGE.read_text(encoding="utf-8")


def test_every_metric_is_read_or_has_a_reason() -> None:
    read = {metric for metric, slugs in readers().items() if slugs}
    assert set(REASONS) == set(Metric) - read


def test_every_module_that_names_metrics_is_known() -> None:
    """A module that serves several detectors states which metrics it reads for which of them."""
    for module, named in modules():
        if not module.startswith("detectors/") and module not in STORAGE:
            assert named == set(SHARED[module]), module
    slugs = {detector.slug for detector in DETECTORS}
    assert {slug for own in SHARED.values() for of in own.values() for slug in of} <= slugs
    named_by_storage = set().union(*(named for module, named in modules() if module in STORAGE))
    assert set(DERIVED) <= named_by_storage


def test_every_kind_of_event_has_a_row() -> None:
    assert set(EVENTS) == {kind for kind in EventKind if kind}
    assert {slug for slugs, _ in EVENTS.values() for slug in slugs} <= {detector.slug for detector in DETECTORS}
