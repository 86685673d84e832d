"""fleet/version-drift: the negative cases first; then drift, rollouts, allow-lists and faulty versions."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.detect.attribute.stage import Attribute
from streams.detect.detectors.fleet_version_drift.cohorts import AllowedVersions, DriftParams
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    Cause,
    Component,
    Condition,
    Endpoint,
    Episode,
    Facts,
    Finding,
    Message,
    Severity,
    Source,
    Status,
    Subject,
    VersionCensus,
    VersionCount,
)
from tests.worlds.facts_world import FactsWorld
from tests.worlds.observations import at, last
from tests.worlds.small_fabric import begun
from tests.worlds.small_world import play, recorded

TOP = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=10, planes=1, spines=2, uplinks=1), at(0)))
DAY = 86_400.0
OLD = "28.39.1002"


def drifts(messages: Sequence[Message], params: DetectParams | None = None) -> list[Finding]:
    """Return the last revisions of the findings on versions."""
    published = play(messages, TOP, params)
    return last(f for f in published if isinstance(f, Finding) and f.condition is Condition.FLEET_VERSION_DRIFT)


def world(**settings: object) -> FactsWorld:
    """Return a world with a fabric of ten hosts."""
    return FactsWorld(topology=TOP, **settings)  # type: ignore[arg-type]


HOSTS = [f"pod1-host{n}" for n in range(1, 11)]
HEALTHY: dict[str, FactsWorld] = {
    "all equal": world(),
    "half and half": world(firmware={host: [(0, OLD)] for host in HOSTS[:5]}),
    "all are updated within ten minutes": world(firmware={host: [(300, "28.42.1000")] for host in HOSTS}),
    "the spines are a cohort of two": world(software={"spine1": [(0, "4.29.0F")]}),
}


@pytest.mark.parametrize("own", HEALTHY.values(), ids=HEALTHY)
def test_no_drift(own: FactsWorld) -> None:
    """All devices run one version, or no version has a clear majority."""
    if own is HEALTHY["the spines are a cohort of two"]:
        own = replace(own, topology=Topology(_two_models()))
        assert not play(list(recorded(own, 900)), own.topology)
    else:
        assert not drifts(list(recorded(own, 900)))


def _two_models() -> Inventory:
    inventory = demo_fabric.inventory(DemoShape(pods=1, hosts=10, planes=1, spines=2, uplinks=1), at(0))
    devices = tuple(d._replace(model="Spine") if d.name.startswith("spine") else d for d in inventory.devices)
    return replace(inventory, devices=devices)


def test_a_few_of_a_cohort_are_one_finding() -> None:
    """The finding names the version, the share and the devices; no link fails more often yet."""
    own = world(firmware={host: [(0, OLD)] for host in HOSTS[:2]})
    (found,) = drifts(list(recorded(own, 900)))
    assert (found.severity, found.cause, found.status) == (Severity.INFO, Cause.VERSION_DRIFT, Status.OPEN)
    assert found.summary == f"MCX755106AS NIC firmware: 2 of 10 devices run {OLD}, 28.41.1000 is what most run"
    assert found.blast_radius is not None and found.blast_radius.hosts == ("pod1-host1", "pod1-host2")
    assert found.evidence[1].statement == f"{OLD} runs in pod1-host1, pod1-host2"
    assert not found.parent_id


def test_a_switch_belongs_to_the_cohort_of_its_vendor_and_model() -> None:
    """The inventory names the cohort; the kernels of hosts are no switch software."""
    (found,) = drifts(list(recorded(world(software={"pod1-leaf2": [(0, "4.29.0F")]}), 900)))
    assert "switch software: 1 of 10 devices run 4.29.0F" in found.summary
    assert found.subject.a == Endpoint("pod1-leaf2")


def test_a_changing_share_is_a_rollout() -> None:
    """One host is updated first, then the rest: INFO for the first few, nothing in the middle, INFO for the last."""
    own = world(firmware={host: [(400 + 120 * n, "28.42.1000")] for n, host in enumerate(HOSTS)})
    first, *rest = drifts(list(recorded(own, 2400)))
    assert (first.cause, first.severity, first.status) == (Cause.VERSION_ROLLOUT, Severity.INFO, Status.RESOLVED)
    assert [(f.cause, f.severity, f.status) for f in rest] == [(Cause.VERSION_ROLLOUT, Severity.INFO, Status.RESOLVED)]
    assert "28.42.1000" in first.summary and "28.41.1000" in rest[0].summary


def test_a_version_outside_the_allow_list_is_a_warning() -> None:
    """It is one even if all devices run it."""
    allowed = AllowedVersions(kind="nic", versions=("28.42.*",))
    params = DetectParams(drift=DriftParams(allowed=(allowed,)))
    (found,) = drifts(list(recorded(world(), 900)), params)
    assert (found.severity, found.cause) == (Severity.WARNING, Cause.VERSION_NOT_ALLOWED)
    assert found.summary.endswith("10 of 10 devices run 28.41.1000, not 28.42.*")


def test_updating_the_device_resolves_it() -> None:
    """The finding is resolved at the next census, and final."""
    (found,) = drifts(list(recorded(world(firmware={"pod1-host3": [(0, OLD), (600, "28.41.1000")]}), 1200)))
    assert (found.status, found.final) == (Status.RESOLVED, True)
    assert found.resolved_at_ns is not None and at(600) <= found.resolved_at_ns <= at(730)


def test_two_sources_of_one_device_count_once() -> None:
    """The host agent and the NIC collector report the same part."""
    own = world()
    twice = [own.facts(host, 1, source) for host in HOSTS for source in (Source.SOURCE_NIC, Source.SOURCE_HOST)]
    stage = begun(Measure(DetectParams()), TOP)
    emitted = [o.message for fact in twice for o in stage.process([fact])]
    emitted += [o.message for o in stage.process([own.facts("pod1-host1", 200, Source.SOURCE_NIC)])]
    census = [message for message in emitted if isinstance(message, VersionCensus)][-1]
    assert {(count.source, count.kind) for count in census.versions} == {(Source.SOURCE_NIC, "nic")}


def test_unchanged_facts_emit_nothing() -> None:
    """Repeated facts cost a comparison each, and no message."""
    own = world()
    stage = begun(Measure(DetectParams()), TOP)
    for t in (0, 100):
        stage.process([own.facts(host, t) for host in HOSTS])
    later = [o for t in range(200, 4000, 100) for o in stage.process([own.facts(host, t) for host in HOSTS])]
    assert later == []


def _attribute(members: int, faulty: Sequence[str], days: float = 20.0) -> list[Finding]:
    """Return the findings on a fleet with `members` devices of an old version, and failed links at `faulty` devices."""
    stage = begun(Attribute(DetectParams()), TOP)
    old, new = [f"old{n}" for n in range(members)], [f"new{n}" for n in range(90)]
    counts = tuple(
        VersionCount(
            "nic",
            "",
            "MCX7",
            Source.SOURCE_NIC,
            version,
            len(devices),
            len(devices),
            0,
            tuple(devices),
            (at(0),) * len(devices),
        )
        for version, devices in (("28.41", new), ("28.39", old))
    )
    published = [o.message for o in stage.process([VersionCensus(0, at(0), counts)])]
    for n, device in enumerate(faulty):
        subject = Subject(f"link:{device}/e0--leaf{n}/d1", Endpoint(device, "e0"), Endpoint(f"leaf{n}", "d1"))
        started_ns = at(DAY * days - 3600 * (n + 1))
        fault = Finding(
            f"{n:032}", n + 1, False, Condition.LINK_DOWN, Status.OPEN, Severity.WARNING, subject, started_ns,
            started_ns,
            detector="link/down",
        )  # fmt: skip
        published += [o.message for o in stage.process([Episode(fault)])]
    for hour in range(round(24 * days) + 2):
        published += [o.message for o in stage.advance_watermark(at(3600.0 * hour))]
    return last(f for f in published if isinstance(f, Finding) and f.condition is Condition.FLEET_VERSION_DRIFT)


def test_links_that_fail_more_often_with_it_make_it_a_warning() -> None:
    """Six of ten against three of ninety, within weeks: a faulty version, with the interval of the ratio."""
    faulty = [*(f"old{n}" for n in range(6)), *(f"new{n}" for n in range(3))]
    (found,) = _attribute(10, faulty)
    assert (found.severity, found.cause) == (Severity.WARNING, Cause.VERSION_FAULTY)
    assert "times as often there" in found.summary
    rates = found.evidence[-1]
    assert rates.statement.startswith("6 links failed in") and rates.observed is not None and rates.expected is not None
    assert rates.observed > 10 * rates.expected


@pytest.mark.parametrize(
    "faulty",
    [
        [],
        ["old0", "old1"],
        [*(f"old{n}" for n in range(3)), *(f"new{n}" for n in range(27))],
        [f"new{n}" for n in range(20)],
    ],
    ids=["none", "too few", "as often as elsewhere", "elsewhere only"],
)
def test_insignificant_faults_do_not_raise_the_severity(faulty: Sequence[str]) -> None:
    """Drift without significantly more faults is INFO."""
    (found,) = _attribute(10, faulty)
    assert (found.severity, found.cause) == (Severity.INFO, Cause.VERSION_DRIFT)


def test_optics_are_a_cohort_by_their_part() -> None:
    """Optics of a switch run another version; a device with modules of both versions counts in both."""
    modules = [
        Facts(
            device, at(1), Source.SOURCE_GNMI,
            components=tuple(
                Component(f"m{n}", "transceiver", "OSFP", "S", ("2.0", "2.1")[(device, n) == ("pod1-leaf3", 1)])
                for n in range(4)
            ),
        )
        for device in TOP.links_of
        if "leaf" in device or "spine" in device
    ]  # fmt: skip
    (found,) = drifts([*FactsWorld(topology=TOP).rounds(900), *modules])
    assert found.subject.role == "transceiver"
    assert "optics firmware: 1 of 11 devices run 2.1" in found.summary
