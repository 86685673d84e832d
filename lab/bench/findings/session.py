"""Plays a noisy day through `attribute`, `decide` and the page logic of `notify`, and kills `decide` repeatedly.

Everything runs in memory and by a simulated clock, so that a run can be repeated. The inputs and outputs of `decide`
pass through the codec and its runner's own code (decide_process.py).
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lab.bench.findings.decide_process import BINDING, DecideProcess, SimulatedClock, TopicLogs
from lab.bench.findings.ledger import FindingLedger, Page, Pager, RemediationLedger, SimulatedAutomation
from lab.bench.findings.port_feed import PortFeed
from lab.world.health_noise import (
    GPU_LOSSES,
    NOISIEST_EVENTS,
    NOISIEST_NODES,
    OUTAGES,
    Noise,
    NoiseSpec,
    simulate_noise,
)
from streams.config.settings import Settings
from streams.decide.policy import load_policy
from streams.decide.stage import Decide
from streams.detect.attribute.stage import Attribute
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.notify.notifier import Notifier
from streams.runtime.inventory_versions import Versions
from streams.wire.models import Finding, Message, Progress, Remediation
from streams.wire.topics import (
    FINDINGS,
    PORT_STATES,
    PROGRESS,
    REMEDIATION_RESULTS,
    REMEDIATIONS,
    Record,
    Topic,
    decode,
    encode,
)

_S = 10**9
_START_NS = 1_800_000_000 * _S
STEP_NS = 2 * _S
"""The step of event time; live it is a tenth of a second. A page waits for 15 s, a decision for 10 s."""
PAGE_INTERVAL_NS = 5 * _S
_SNAPSHOTS_NS = 600 * _S
"""The interval of snapshots that no kill follows. Live it is one second. Only the last snapshot before a kill is read,
so the others are left out, and those before a kill are written one or two steps before it."""
_DAY_NS = 86_400 * _S
_DOWN_S = (1.0, 30.0)
"""The time for which a killed `decide` is down (choice)."""


@dataclass(frozen=True, slots=True)
class Options:
    """The size of the fabric, the rate of the noise, and the kills."""

    findings: int = 100_000
    hours: float = 24
    gpus: int = 2048
    planes: int = 2
    radix: int = 128
    times: float = 10
    """The events per node, as a multiple of the noisiest published rate."""
    kills: int = 50
    seed: int = 1

    def per_day(self, count: int) -> int:
        """Return the number in the period of a daily count, at least one."""
        return max(1, round(count * self.hours / 24))

    @property
    def events(self) -> int:
        """Return the number of health events in the period."""
        nodes = self.gpus / 8
        return round(self.times * NOISIEST_EVENTS / NOISIEST_NODES * nodes * self.hours / 24)


@dataclass(frozen=True, slots=True)
class StateSize:
    """The size of the state of `decide`, and the number of findings of the last 24 h, whose decisions it retains."""

    size: int
    findings: int


@dataclass(slots=True)
class FindingsOutcome:
    """The results of one run."""

    options: Options
    events: int = 0
    findings: int = 0
    finding_revisions: int = 0
    pages: list[Page] = field(default_factory=list)
    unpaged: list[str] = field(default_factory=list)
    """Injected outages that did not page."""
    outages: int = 0
    remediations: int = 0
    differing: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Findings without a decision."""
    due: int = 0
    states: Counter[str] = field(default_factory=Counter)
    acted: int = 0
    kills: int = 0
    repeated_inputs: int = 0
    repeated_outputs: int = 0
    states_of_decide: list[StateSize] = field(default_factory=list)
    """A size every ten minutes."""

    @property
    def pages_per_hour(self) -> float:
        """Return the pages per hour."""
        return len(self.pages) / self.options.hours


class FindingsRun:
    """Connects the parts of one run."""

    def __init__(self, options: Options, settings: Settings) -> None:
        self._options, self._settings = options, settings
        params = GenerateParams(gpus=options.gpus, planes=options.planes, radix=options.radix)
        self._topology = topology = Topology(generate(params), digest="bench")
        self._noise: Noise = simulate_noise(
            topology,
            NoiseSpec(
                options.findings,
                options.events,
                options.hours,
                options.seed,
                options.per_day(OUTAGES),
                options.per_day(GPU_LOSSES),
            ),
            _START_NS,
        )
        self._chance = random.Random(options.seed + 2)  # noqa: S311 — no secret
        self._clock = SimulatedClock(_START_NS)
        self._ports = PortFeed(topology, _START_NS)
        self._automation = SimulatedAutomation(options.seed + 3)
        self._remediations = RemediationLedger()
        self._findings = FindingLedger(round(settings.decide.settle_s * _S))
        self._pager = Pager(Notifier(settings.notify), PAGE_INTERVAL_NS)
        self._logs = TopicLogs(BINDING.inputs, self._follow)
        versions = Versions()
        versions.add(0, topology)
        self._decide = DecideProcess(self._make_stage(), versions, self._logs, self._clock, options.seed + 4)
        self._attribute = Attribute(settings.detect)
        self._outcome = FindingsOutcome(options)
        self._restart_ns = 0
        """The time at which a killed `decide` starts again."""

    def _make_stage(self) -> Callable[[], Decide]:
        params = self._settings.decide.model_copy(update={"mode": "act"})
        policy = load_policy(params.policy)
        return lambda: Decide(params, policy)

    def run(self, on_progress: Callable[[str], None] = lambda _: None) -> FindingsOutcome:
        """Run the whole period."""
        end_ns = _START_NS + round(self._options.hours * 3600 * _S)
        self._attribute.start_epoch(1)
        self._attribute.set_topology(self._topology)
        for states in self._ports.begin():
            self._send(PORT_STATES, states)
        self._decide.start()
        kills_ns = self._kill_times(end_ns)
        episodes = self._noise.episodes()
        following = next(episodes, None)
        snapshot_ns = _START_NS
        for at_ns in range(_START_NS, end_ns, STEP_NS):
            self._clock.at_ns = at_ns
            batch: list[Message] = []
            while following is not None and following[0] <= at_ns:
                _, episode, fault = following
                is_over = episode.finding.is_closed
                if is_over or episode.finding.revision == 1:
                    self._send_all(PORT_STATES, self._ports.change(fault, following[0], is_over=is_over))
                batch.append(episode)
                following = next(episodes, None)
            self._attribute_step(batch, at_ns)
            self._decide_step(at_ns, kills_ns)
            if at_ns >= snapshot_ns and self._decide.is_running:
                snapshot_ns = at_ns + _SNAPSHOTS_NS
                self._decide.write_snapshot()
                self._sample(at_ns, end_ns, on_progress)
            self._pager.advance(at_ns)
        return self._finish(end_ns)

    def _kill_times(self, end_ns: int) -> list[int]:
        """Return the times of the kills in descending order."""
        times = sorted(
            self._chance.randrange(_START_NS + 60 * _S, end_ns - 120 * _S) for _ in range(self._options.kills)
        )
        return times[::-1]

    def _attribute_step(self, batch: Sequence[Message], at_ns: int) -> None:
        outputs = self._attribute.process(batch) if batch else []
        outputs += self._attribute.advance_watermark(at_ns)
        for output in outputs:
            if output.topic is FINDINGS and isinstance(output.message, Finding):
                self._send(FINDINGS, output.message)
                self._findings.observe(output.message, at_ns)
                self._pager.notifier.process(output.message, at_ns)
        end = self._logs.log(FINDINGS.name).end
        self._send(PROGRESS, Progress("attribute", 0, 1, at_ns, end), "attribute/0")

    def _decide_step(self, at_ns: int, kills_ns: list[int]) -> None:
        self._send_all(PORT_STATES, self._ports.advance(at_ns))
        self._send_all(REMEDIATION_RESULTS, self._automation.due(at_ns))
        if not self._decide.is_running:
            if at_ns >= self._restart_ns:
                self._decide.start()
        elif kills_ns and at_ns >= kills_ns[-1]:
            kills_ns.pop()
            self._decide.read_and_die()
            self._restart_ns = at_ns + round(self._chance.uniform(*_DOWN_S) * _S)
        else:
            self._decide.read()
            # The last snapshot before a kill is up to two steps old, like a snapshot each second.
            if kills_ns and kills_ns[-1] - at_ns < self._chance.choice((1, 2)) * STEP_NS:
                self._decide.write_snapshot()

    def _sample(self, at_ns: int, end_ns: int, on_progress: Callable[[str], None]) -> None:
        share = (at_ns - _START_NS) / (end_ns - _START_NS)
        findings = self._findings.count_since(at_ns - _DAY_NS)
        self._outcome.states_of_decide.append(StateSize(self._decide.snapshot_bytes, findings))
        on_progress(
            f"{share:4.0%}: {len(self._findings.ids):,} findings, {len(self._pager.pages)} pages, "
            f"{self._decide.kills} kills, state of decide {self._decide.snapshot_bytes / 1e6:.1f} MB"
        )

    def _send(self, topic: Topic, message: Message, key: str | None = None) -> None:
        self._logs.append(encode(topic, message, key=key), self._clock.at_ns)

    def _send_all(self, topic: Topic, messages: Iterator[Message]) -> None:
        for message in messages:
            self._send(topic, message)

    def _follow(self, record: Record, at_ns: int) -> None:
        """Record the remediations as their consumers observe them."""
        if record.topic is not REMEDIATIONS:
            return
        remediation = decode(REMEDIATIONS, record.value, record.headers)
        assert isinstance(remediation, Remediation)
        self._remediations.observe(remediation)
        self._automation.observe(remediation, at_ns)
        self._pager.notifier.process(remediation, at_ns)
        if remediation.target.id in self._topology.links and remediation.state.name in ("DRAINED", "VERIFYING"):
            self._ports.watched.add(remediation.target.id)
        elif remediation.state.name in ("PROBATION", "CLOSED"):
            self._ports.watched.discard(remediation.target.id)

    def _finish(self, end_ns: int) -> FindingsOutcome:
        outcome, remediations = self._outcome, self._remediations
        if not self._decide.is_running:
            self._decide.start()
        self._findings.end(end_ns)
        outcome.events = self._options.events
        outcome.findings, outcome.finding_revisions = len(self._findings.ids), self._findings.revisions
        outcome.pages, outcome.outages = self._pager.pages, len(self._noise.outages)
        outcome.unpaged = [
            name for name, (begin, end) in self._noise.outages.items() if not self._has_paged(name, begin, end)
        ]
        outcome.remediations, outcome.differing = len(remediations.known), remediations.differing
        outcome.due = len(self._findings.due)
        outcome.lost = sorted(self._findings.due - remediations.covered)
        outcome.states, outcome.acted = remediations.states(), self._automation.acted
        outcome.kills, outcome.repeated_inputs = self._decide.kills, self._decide.repeated
        outcome.repeated_outputs = remediations.repeated
        return outcome

    def _has_paged(self, name: str, begin_ns: int, end_ns: int) -> bool:
        """Return True if a page of the outage's device was sent during the outage."""
        device = name.split(maxsplit=1)[0].removeprefix("port:").split("/")[0]
        return any(begin_ns <= page.at_ns <= end_ns and device in page.subject_id for page in self._pager.pages)


def measure(
    options: Options, settings: Settings, on_progress: Callable[[str], None] = lambda _: None
) -> FindingsOutcome:
    """Run one period; raises ValueError if the fabric has no room for the noise."""
    return FindingsRun(options, settings).run(on_progress)


MOST_PAGES_PER_HOUR = 1.0
STATE_BYTES, BYTES_PER_FINDING = 2_000_000, 300
"""The limits of the state of `decide`: a constant for all ports and open findings, and a size for each finding of the
last day."""


def problems(outcome: FindingsOutcome) -> list[str]:
    """Return the broken promises."""
    checks = (
        (outcome.pages_per_hour < MOST_PAGES_PER_HOUR, f"pages below {MOST_PAGES_PER_HOUR:g} an hour"),
        (not outcome.unpaged, "every injected outage pages"),
        (not outcome.differing, "no id is decided twice differently"),
        (not outcome.lost, "no finding is lost"),
        (outcome.kills == outcome.options.kills, "every kill happened"),
        (
            all(one.size <= STATE_BYTES + BYTES_PER_FINDING * one.findings for one in outcome.states_of_decide),
            f"state of decide below {STATE_BYTES / 1e6:g} MB and {BYTES_PER_FINDING} bytes a finding of the last day",
        ),
    )
    return [text for holds, text in checks if not holds]


def as_dict(outcome: FindingsOutcome) -> dict[str, Any]:
    """Return all results for JSON."""
    return asdict(replace(outcome, states=Counter())) | {
        "states": dict(outcome.states),  # asdict counts the pairs of a Counter
        "pages_per_hour": outcome.pages_per_hour,
        "problems": problems(outcome),
    }


def table_lines(outcome: FindingsOutcome) -> Iterator[str]:
    """Yield the lines of the table."""
    options = outcome.options
    yield (
        f"{options.gpus:,} GPUs, {options.planes} planes, {options.hours:g} h: {outcome.events:,} health events "
        f"({options.times:g} times the noisiest published rate), {outcome.findings:,} findings in "
        f"{outcome.finding_revisions:,} revisions"
    )
    names = ", ".join(f"{count} {name}" for name, count in Counter(page.name for page in outcome.pages).most_common())
    yield f"{'pages':<28}{len(outcome.pages):>10,}   {outcome.pages_per_hour:.2f} an hour: {names}"
    yield f"{'injected outages':<28}{outcome.outages:>10,}   {outcome.outages - len(outcome.unpaged)} paged"
    states = ", ".join(f"{count:,} {state}" for state, count in outcome.states.most_common())
    yield f"{'remediations':<28}{outcome.remediations:>10,}   {states}"
    yield f"{'carried out':<28}{outcome.acted:>10,}"
    yield (
        f"{'kills of decide':<28}{outcome.kills:>10,}   {outcome.repeated_inputs:,} records read again, "
        f"{outcome.repeated_outputs:,} revisions published again"
    )
    yield f"{'decided twice differently':<28}{len(outcome.differing):>10,}"
    yield f"{'findings without a decision':<28}{len(outcome.lost):>10,}   of {outcome.due:,} that need one"
    yield (
        f"{'state of decide, MB':<28}{outcome.states_of_decide[-1].size / 1e6:>10.1f}   "
        + ", ".join(f"{one.size / 1e6:.1f} with {one.findings:,} findings of a day" for one in _quarters(outcome))
    )
    for page in outcome.unpaged:
        yield f"NO  page of: {page}"
    found = problems(outcome)
    for text in found:
        yield f"NO  {text}"
    if not found:
        yield "yes pages, ids, findings and memory are within their limits"


def _quarters(outcome: FindingsOutcome) -> list[StateSize]:
    """Return the sizes at the end of each quarter."""
    sizes = outcome.states_of_decide
    return [sizes[max(0, len(sizes) * quarter // 4 - 1)] for quarter in (1, 2, 3, 4)]
