"""One trial: a fabric, its faults and its hard cases by a seed, through the stages as they come, and the score of it.

What happens is drawn from the seed alone, so that a trial can be had again; nothing here knows a detector.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from streams.bench.detection.sources import without_source
from streams.config.settings import Settings
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.notify.notifier import Notifier
from streams.replay.driver import Driver, Stages
from streams.replay.score import Score, ScoredFinding, Truth, score
from streams.simulation import ground_truth
from streams.simulation.clos import GenerateParams, generate
from streams.simulation.conditions import CONDITIONS
from streams.simulation.delivery_model import Cadence, DeliveryModel
from streams.simulation.effects import Effect, Interval
from streams.simulation.fabric_arrays import fabric_arrays
from streams.simulation.fault_placement import FaultPlacer, NoRoom
from streams.simulation.ground_truth import InjectedFault
from streams.simulation.negative_cases import NEGATIVE_CASES, hosts_in_maintenance
from streams.simulation.telemetry import Telemetry
from streams.simulation.traffic import Traffic
from streams.simulation.world import World
from streams.wire.models import Condition, Finding, Message

_S = 10**9
START_NS = round(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * _S
WARM_S = 300.0
"""Before anything happens: sources are met and their first window is over."""
OVER_S = 900.0
"""After all is over, for findings to be over as well."""
_LEAST_S = 3000.0
"""The longest fault lasts 40 min."""
_AN_HOUR = 24
"""Faults of each condition that 2,048 GPUs have room for, each apart from the others at its place."""
_STRETCHES = (1.0, 1.25, 1.5, 2.0, 3.0)
"""Where faults do not fit beside each other the time is so much longer."""
_POST_NS = 5 * _S
"""So often it is asked who is to be paged."""
_DAYS_SLICE_S = 15.0
_GPUS_OF_TODAY = 2048
_DAYS = DeliveryModel(agent_rounds=30)
"""Agents are a tenth of all messages then, and not two thirds."""
_FAULTS_A_DAY_AND_SERVER = 1 / (5 * 400)
"""One network fault in 5 days on 400 servers (DETECTION 3, "Base rate")."""


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """What a trial is asked. `each` faults of every condition, or with `days` the published base rate over so many."""

    gpus: int = 2048
    seed: int = 1
    each: int = 50
    days: float = 0.0
    cadence: Cadence = field(default_factory=Cadence)
    conditions: tuple[Condition, ...] = tuple(CONDITIONS)
    without: str = ""
    """One of SOURCES: nothing comes of it any more once the first minutes are over."""

    @property
    def what(self) -> str:
        """What happens, in words."""
        return f"{self.days:g} days at the base rate" if self.days else f"{self.each} faults of each condition"

    @property
    def seconds(self) -> float:
        """Within which faults begin and end."""
        if self.days:
            return self.days * 86_400
        return max(_LEAST_S, self.each / _AN_HOUR * 3600 * max(1.0, _GPUS_OF_TODAY / self.gpus))

    @property
    def slice_s(self) -> float:
        """So much of arrival comes at once: a page's hold, for days; else a tenth of a round."""
        return _DAYS_SLICE_S if self.days else max(1.0, self.cadence.switch_s / 10)


@dataclass(slots=True)
class Outcome:
    """What came of it. `arrived_ns` is when a finding was first said, by the arrival clock; `pages` those posted."""

    spec: TrialSpec
    injections: list[InjectedFault]
    score: Score
    findings: dict[str, Finding]
    first_published_ns: dict[str, int]
    pages: dict[str, int]
    report_delays_ns: dict[tuple[int, int], int]
    """By (link, when its signal went): after how long the first of its ends told of it."""
    counts: Counter[str]
    hours: float
    negative_cases: Counter[str] = field(default_factory=Counter)

    def detectable_from_ns(self, truth: Truth) -> int:
        """When it could be known."""
        known = next(k for i in self.injections for k in i.ground_truths if _same(k.truth, truth))
        return known.detectable_from_ns + (self.report_delays_ns.get(known.reported_by, 0) if known.reported_by else 0)

    def delays_s(self, condition: Condition) -> list[float]:
        """Time to detect as findings say it, from when the fault was complete."""
        return [
            (m.finding.detected_ns - self.detectable_from_ns(m.truth)) / 1e9
            for m in self.score.found
            if m.truth.condition is condition
        ]

    def publication_delays_s(self, condition: Condition) -> list[float]:
        """The same until the finding was there to be read, by the arrival clock."""
        return [
            (at_ns - self.detectable_from_ns(m.truth)) / 1e9
            for m in self.score.found
            if m.truth.condition is condition and (at_ns := self._said_ns(m.finding)) is not None
        ]

    def _said_ns(self, seen: ScoredFinding) -> int | None:
        own = (
            self.first_published_ns[f.id]
            for f in self.findings.values()
            if f.condition is seen.condition and f.subject.id == seen.subject_id and f.started_at_ns >= seen.start_ns
        )
        return min(own, default=None)

    @property
    def false_pages(self) -> list[str]:
        """Pages that were not a fault: of nothing that there was, of whichever condition, or taken back."""
        return [identity for identity in self.pages if not self._was(self.findings[identity])]

    def _was(self, finding: Finding) -> bool:
        ends = {end.device for end in (finding.subject.a, finding.subject.z) if end is not None}
        ends |= {finding.subject.pod} if finding.subject.id.startswith("pod:") else set()
        began_ns = finding.started_at_ns
        return any(
            truth.device in ends
            and truth.start_ns - truth.tolerance_ns <= began_ns <= truth.end_ns + truth.tolerance_ns
            for injection in self.injections
            for truth in injection.truths
        )


def _same(own: ground_truth.Truth, scored: Truth) -> bool:
    """The score makes one of those that follow each other at one place: it has the place and begin of the first."""
    key = scored.condition, scored.device, scored.port, scored.start_ns
    return key == (own.condition, own.device, own.port, own.start_ns)


def run(asked: TrialSpec, settings: Settings, stages: Stages) -> Outcome:
    """Make it happen and look; raises Full where it does not fit."""
    for stretch in _STRETCHES[:-1]:
        with suppress(NoRoom):
            return _run(asked, stretch, settings, stages)
    return _run(asked, _STRETCHES[-1], settings, stages)


def _run(asked: TrialSpec, stretch: float, settings: Settings, stages: Stages) -> Outcome:
    chance = np.random.default_rng(asked.seed)
    inventory = generate(GenerateParams(gpus=asked.gpus, jobs=0))
    plant = fabric_arrays(inventory)
    within = Interval(START_NS + round(WARM_S * _S), START_NS + round((WARM_S + asked.seconds * stretch) * _S))
    whole = Interval(START_NS, within.end_ns + round(OVER_S * _S))
    hosts = [name for name, host in zip(plant.devices, plant.is_host, strict=True) if host]
    traffic = Traffic(len(hosts), min(32, max(4, len(hosts) // 8)), whole, chance)
    tier_of = {device.name: device.tier for device in inventory.devices}
    pods = {device.name: device.pod for device in inventory.devices}
    places = FaultPlacer(plant, [tier_of[name] for name in plant.devices], traffic, chance, pods)
    visited, effects = hosts_in_maintenance(places, within)
    injections = list(_injections(asked, places, within))
    hard, more = _hard(asked, places, within)
    hard["host-in-maintenance"] = len(visited)
    effects += more + [effect for injection in injections for effect in injection.effects]
    devices = tuple(d._replace(maintenance_until=visited.get(d.name)) for d in inventory.devices)
    topology = Topology(Inventory(devices, inventory.links, inventory.ports, traffic.jobs(hosts)))
    world = World(inventory, plant, traffic, effects, START_NS, chance)
    delivery = Telemetry(world, topology, effects, asked.cadence, _DAYS if asked.days else DeliveryModel(), chance)
    batches = delivery.batches(whole.start_ns, whole.end_ns, round(asked.slice_s * _S))
    watch = _Watch(Notifier(settings.notify))
    watch.follow(Driver(stages, topology), without_source(batches, asked.without, within.start_ns))
    said = list(watch.findings.values())
    injections = [
        replace(one, ground_truths=tuple(known.at_reported_device(said) for known in one.ground_truths))
        for one in injections
    ]
    truths = [Truth(*astuple(truth)) for injection in injections for truth in injection.truths]
    return Outcome(
        asked, injections, score(watch.revisions, truths, settings.notify.hold_s), watch.findings, watch.arrived_ns,
        watch.pages, delivery.report_delays_ns, delivery.counts, (whole.end_ns - whole.start_ns) / 3.6e12, hard,
    )  # fmt: skip


def _injections(asked: TrialSpec, places: FaultPlacer, within: Interval) -> Iterator[InjectedFault]:
    own = [condition for condition in CONDITIONS if condition in asked.conditions]
    if not asked.days:
        for condition in own:
            for _ in range(asked.each):
                yield CONDITIONS[condition][0](places, within)
        return
    servers = places.tiers.count("host")
    for _ in range(int(places.chance.poisson(asked.days * servers * _FAULTS_A_DAY_AND_SERVER))):
        yield CONDITIONS[own[places.chance.integers(len(own))]][0](places, within)


def _hard(asked: TrialSpec, places: FaultPlacer, within: Interval) -> tuple[Counter[str], list[Effect]]:
    hours = (within.end_ns - within.start_ns) / 3.6e12
    # Over days a hard case every few minutes were no healthy fabric; a tenth of it still is 100 a day.
    often = asked.gpus / _GPUS_OF_TODAY * (0.1 if asked.days else 1.0)
    made: Counter[str] = Counter()
    effects: list[Effect] = []
    for make, an_hour in NEGATIVE_CASES:
        for _ in range(int(places.chance.poisson(an_hour * hours * often))):
            with suppress(NoRoom):  # as many as find room beside the faults; how many is printed
                effects += make(places, within)
                made[make.__name__.replace("_", "-")] += 1
    return made, effects


@dataclass(slots=True)
class _Watch:
    """Follows what is said, and who would be paged by the arrival clock."""

    notifier: Notifier
    revisions: list[Finding] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    arrived_ns: dict[str, int] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)

    def follow(self, driver: Driver, batches: Iterator[tuple[int, list[Message]]]) -> None:
        """To the end."""
        looked_ns = 0
        for at_ns, batch in batches:
            for message in driver.process(batch) if batch else ():
                if isinstance(message, Finding):
                    self._keep(message, at_ns)
            if at_ns >= looked_ns + _POST_NS:
                looked_ns = at_ns
                self._post(at_ns)

    def _keep(self, finding: Finding, at_ns: int) -> None:
        self.revisions.append(finding)
        self.findings[finding.id] = finding
        self.arrived_ns.setdefault(finding.id, at_ns)
        self.notifier.process(finding, at_ns)

    def _post(self, at_ns: int) -> None:
        due = self.notifier.due(at_ns)
        for alert in due:
            if alert.labels.get("page") == "true" and alert.ends_at_ns > at_ns:
                self.pages.setdefault(alert.labels["finding_id"], at_ns)
        self.notifier.posted(due, at_ns)
