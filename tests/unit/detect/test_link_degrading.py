"""link/degrading: negative cases first, then when it opens, what it reports, and when it resolves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from streams.detect.correlate.stage import Correlate
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.wire.models import Cause, Finding, Message, Samples, Severity, Source, Status, Symptom, Window
from tests.worlds.link_windows import (
    BER,
    FCS,
    GNMI,
    MINUTE,
    PACKETS,
    POWER,
    SNMP,
    Values,
    degrading_findings,
    minute,
    powers,
)
from tests.worlds.measure_stage import stage as measure_stage
from tests.worlds.observations import HOST, LEAF, LINK, after, at, down, episodes, last, off, restarted, samples, up
from tests.worlds.small_fabric import begun, inventory, topology

SYMBOLS, RETRIES, RETRIED = (
    Metric.UNCORRECTED_SYMBOLS, Metric.PLR_TX_RETRY_EVENTS, Metric.PLR_RX_UNCORRECTABLE,
)  # fmt: skip
BYTES, DISCARDS, ANY = Metric.RX_BYTES, Metric.RX_DISCARDS, Metric.RX_ERRORS
FEC, OK, DAMAGED, AGAIN, POISONED, GONE = (
    Metric.FEC_UNCORRECTED_CODEWORDS, Metric.LLR_RX_OK, Metric.LLR_RX_BAD, Metric.LLR_TX_REPLAYS,
    Metric.LLR_RX_POISONED, Metric.LLR_TX_DISCARDS,
)  # fmt: skip
LANES, BINS = Metric.LANE_RAW_ERRORS, Metric.FEC_CODEWORDS_BY_ERRORS
BUSY = 1_000_000
"""Frames a minute of a busy test link: five lost of them are well above 1e-8."""


def lossy(port: str, *counts: float, first: int = 0, metric: Metric = FCS, source: Source = GNMI) -> list[Message]:
    """Return one window a minute, each with a count of lost frames of BUSY."""
    return [minute(port, first + n, {metric: count, PACKETS: BUSY}, source) for n, count in enumerate(counts)]


def bers(port: str, *values: float, every: int = 1, first: int = 0) -> list[Message]:
    """Return windows with these BERs, each a step from the previous one."""
    emitted: list[Message] = []
    for n, value in enumerate(values):
        before: Values = {BER: values[n - 1] if n else value}
        emitted.append(minute(port, first + n * every, {BER: value}, before=before))
    return emitted


CLEAN = (0,) * 10
BAD = (4, 4, 4)


def replayed(port: str, counts: Mapping[Metric, int], minutes: int = 3) -> list[Message]:
    """Return windows of a port whose link-level retry is up: some minutes with these counts, and ten clean ones."""
    up: Values = {OK: BUSY, PACKETS: BUSY}
    return [minute(port, n, up | dict(counts) if n < minutes else up) for n in range(minutes + 10)]


NONE: dict[str, list[Message]] = {
    "a single error": lossy(HOST, 1, *CLEAN),
    "a single burst": lossy(HOST, 10_000, *CLEAN),
    "two bad minutes": lossy(HOST, 50, 50, *CLEAN),
    "four errors in three minutes": lossy(HOST, 1, 1, 2, *CLEAN),
    "a few errors on a link that is busy": [
        minute(HOST, n, {FCS: 2, PACKETS: 6e9}) for n in range(4)],
    "an error each quarter of an hour": lossy(HOST, *(9 if n % 15 == 0 else 0 for n in range(90))),
    "three sources that each report the same two minutes": [
        m for s in (GNMI, SNMP, Source.SOURCE_NIC) for m in lossy(HOST, 9, 9, 0, source=s)],
    "a link that goes down and loses its last frames": [
        *(s for t in (30, 90, 150, 210) for s in (down(HOST, t), up(HOST, t + 2))), *lossy(LEAF, 9, 9, 9, 9, *CLEAN)],
    "a device that restarted": [restarted("p1-l0", 200, 10), *lossy(LEAF, 9, 9, 9, *CLEAN)],
    "a port that a person shut": [off(LEAF, -10), *lossy(LEAF, 9, 9, 9, *CLEAN)],
    "errors that follow the load, beside discards": [
        minute(HOST, n, {ANY: (n % 4 > 1) * 500, DISCARDS: (n % 4 > 1) * 500, BYTES: 1e9 + (n % 4) * 1e9,
                         PACKETS: BUSY}) for n in range(12)],
    "errors beside discards, at an unknown load": [
        minute(HOST, n, {ANY: 500, DISCARDS: 500}) for n in range(12)],
    "a BER below what fails": bers(HOST, *[9e-6] * 30),
    "a BER that fails for two minutes": bers(HOST, 1e-9, 2e-5, 2e-5, 1e-9, *[1e-9] * 8),
    "less light, but not by half": powers(HOST, -3.0, -4.5, *[-5.9] * 20),
    "symbol errors of a link whose BER is known": [
        minute(HOST, n, {Metric.RX_SYMBOL_ERRORS: 1e6, BER: 1e-9}) for n in range(12)],
    "three steps of a BER": bers(HOST, 1e-8, 3e-8, 1e-7, 3e-7, every=30),
    "steps too fast for a trend": bers(HOST, 1e-8, 2e-8, 4e-8, 8e-8, 1.6e-7, *[1.6e-7] * 8),
    "steps that go both ways": bers(HOST, 1e-8, 3e-8, 1e-8, 3e-8, 1e-8, 3e-8, 1e-8, 3e-8, every=30),
    "a BER that gets better": bers(HOST, *(1e-6 * 0.5**n for n in range(8)), every=30),
    "one symbol error in 42 min, as 1e-15 at 400 Gb/s": [
        minute(HOST, n, {SYMBOLS: n % 42 == 0, PACKETS: 10 * BUSY}) for n in range(130)],
    "retries of a packet in a thousand million": [
        minute(HOST, n, {RETRIED: 2, SYMBOLS: 0, PACKETS: 6e9}) for n in range(4)],
    "frames that an earlier link damaged": replayed(HOST, {POISONED: 50, FCS: 50, DAMAGED: 0}, 4),
    "one burst of replays": replayed(HOST, {FEC: 500, DAMAGED: 500}, 1),
    "a few replays on a link that is busy": [
        minute(HOST, n, {OK: 6e9, DAMAGED: 2, PACKETS: 6e9}) for n in range(4)],
    "a trend that would need months": bers(HOST, *(1e-10 * 1.8**n for n in range(5)), every=60 * 24 * 6),
}  # fmt: skip


@pytest.mark.parametrize("messages", NONE.values(), ids=NONE)
def test_what_is_not_degrading(messages: Sequence[Message]) -> None:
    """Single errors, one cause in many reports, downs, restarts, maintenance, congestion, trends without forecast."""
    assert degrading_findings(messages, 60 * 24 * 40 if "months" in str(messages) else 600) == []


SOME: dict[str, tuple[list[Message], Cause, Severity, float, float]] = {
    # windows; cause, severity; started, resolved
    "frames lost in three minutes": (lossy(HOST, *BAD, *CLEAN), Cause.UNKNOWN, Severity.WARNING, 20, 200),
    "lost in three minutes of ten": (
        lossy(HOST, 3, 0, 0, 3, 0, 0, 0, 0, 3, *CLEAN), Cause.UNKNOWN, Severity.WARNING, 20, 560),
    "uncorrectable codewords": (
        lossy(HOST, *BAD, *CLEAN, metric=Metric.FEC_UNCORRECTED_CODEWORDS), Cause.UNKNOWN, Severity.WARNING, 20, 200),
    "errors of any kind that do not follow the load": (
        [minute(HOST, n, {ANY: (n < 4) * 5 * (1 + n % 2), DISCARDS: (n < 4) * 5, BYTES: 1e9 * (1 + n % 2),
                          PACKETS: BUSY * (1 + n % 2)}) for n in range(16)], Cause.UNKNOWN, Severity.WARNING, 200, 260),
    "both directions": (
        [*lossy(HOST, *BAD, *CLEAN), *lossy(LEAF, *BAD, *CLEAN)], Cause.CABLE, Severity.WARNING, 20, 200),
    "a BER that fails": (bers(HOST, 1e-9, 2e-5, 2e-5, 2e-5, *[1e-9] * 12), Cause.UNKNOWN, Severity.WARNING, 80, 260),
    "half the light": (powers(HOST, -3.0, *[-6.1] * 4, *[-3.0] * 12), Cause.CABLE, Severity.INFO, 80, 320),
    "symbol errors without FEC": (
        [minute(HOST, n, {Metric.RX_SYMBOL_ERRORS: 3 * (n < 3)}) for n in range(14)],
        Cause.UNKNOWN, Severity.WARNING, 20, 200),
    "link error recoveries": (
        [minute(HOST, n, {Metric.LINK_ERROR_RECOVERIES: 6 * (n < 3)}) for n in range(14)],
        Cause.UNKNOWN, Severity.WARNING, 20, 200),
    "one lane of four": (
        [minute(HOST, n, {FCS: 4 * (n < 3), PACKETS: BUSY, LANES: (1.0, 0.0, 2.0, 998.0)}) for n in range(13)],
        Cause.OPTIC, Severity.WARNING, 20, 200),
    "errors but fine optics, at the host": (
        [minute(HOST, n, {FCS: 4 * (n < 3), PACKETS: BUSY, POWER: (-3.0,)}) for n in range(13)],
        Cause.NIC, Severity.WARNING, 20, 200),
    "errors but fine optics, at the switch": (
        [minute(LEAF, n, {FCS: 4 * (n < 3), PACKETS: BUSY, POWER: (-3.0,)}) for n in range(13)],
        Cause.SWITCH, Severity.WARNING, 20, 200),
    "replays, by both ends": (
        [*replayed(HOST, {FEC: 17, DAMAGED: 17}), *replayed(LEAF, {AGAIN: 17, GONE: 0})],
        Cause.UNKNOWN, Severity.WARNING, 20, 200),
    "replays, while an end does not count them": (
        [*lossy(HOST, *BAD, *CLEAN, metric=FEC), *replayed(LEAF, {AGAIN: 4})],
        Cause.UNKNOWN, Severity.WARNING, 20, 200),
    "frames that the transmitter discards": (
        replayed(LEAF, {AGAIN: 40, GONE: 4}), Cause.UNKNOWN, Severity.WARNING, 20, 200),
    "symbol errors of InfiniBand, however many packets": (
        [minute(HOST, n, {SYMBOLS: 2 * (n < 3), ANY: 2 * (n < 3), PACKETS: 6e9}) for n in range(13)],
        Cause.UNKNOWN, Severity.WARNING, 20, 200),
    "PLR's retries": (
        [minute(LEAF, n, {RETRIES: 4 * (n < 3), SYMBOLS: 0, PACKETS: BUSY}) for n in range(13)],
        Cause.UNKNOWN, Severity.WARNING, 20, 200),
    "a person came long after": (
        [*lossy(HOST, *BAD, *CLEAN), off(LEAF, 3600)], Cause.UNKNOWN, Severity.WARNING, 20, 200),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "cause", "severity", "started", "resolved"), SOME.values(), ids=SOME)
def test_what_is_degrading(
    messages: Sequence[Message], cause: Cause, severity: Severity, started: float, resolved: float
) -> None:
    """One episode, from the first window that made the case to the end of the last that was bad."""
    (final,) = last(degrading_findings(messages))
    assert (final.status, final.final, final.detector) == (Status.RESOLVED, True, "link/degrading")
    assert (after(final.started_at_ns), after(final.resolved_at_ns)) == pytest.approx((started, resolved))
    assert (final.cause, final.severity, final.subject.id) == (cause, severity, LINK)


def test_it_opens_with_the_third_bad_minute_and_ends_after_ten_good_ones() -> None:
    """OPEN when the window is final, RESOLVED ten minutes after the last bad one, final after the lateness."""
    messages = lossy(HOST, *BAD, *CLEAN)
    assert degrading_findings(messages[:2]) == []
    (opened,) = degrading_findings(messages[:3], 4)
    assert (opened.status, after(opened.detected_at_ns)) == (Status.OPEN, 230)
    end_min = 200 / 60 + 10
    assert degrading_findings(messages, end_min - 0.01)[-1].status is not Status.RESOLVED
    assert (degrading_findings(messages, end_min)[-1].status, degrading_findings(messages, end_min)[-1].final) == (
        Status.RESOLVED,
        False,
    )
    assert degrading_findings(messages, end_min + 0.5)[-1].final is True


def test_it_stays_open_without_windows() -> None:
    """Missing is not healthy: a day without a window neither resolves nor retracts a finding."""
    found = degrading_findings(lossy(HOST, *BAD), 60 * 24)
    assert {f.status for f in found} <= {Status.OPEN, Status.UPDATED}
    assert len({f.id for f in found}) == 1


def test_it_stays_open_while_its_port_is_not_read_beside_others() -> None:
    """A walk that ends early reads the other ports on; its last reading of this one is no good minute."""
    messages = [
        samples("p1-l0", 60 * n, {FCS: {"d2": 0} | ({"d1": 4.0 * min(n, 5)} if n < 6 or n >= until else {})})
        for until in (60, 40)
        for n in range(60)
    ]
    (unread,), (read,) = (_through_both(messages[first : first + 60]) for first in (0, 60))
    assert (unread.resolved_at_ns, read.status) == (None, Status.RESOLVED)


def test_a_day_of_errors_is_one_episode_with_one_beginning() -> None:
    """However old its first windows, and with good minutes in between; state stays bounded."""
    stage = Correlate(DetectParams())
    stage.start_epoch(1)
    outputs = stage.set_topology(topology())
    sizes = []
    for n in range(60 * 8):
        message = minute(HOST, n, {FCS: 4 * (n % 3 < 2), PACKETS: BUSY})
        outputs += stage.advance_watermark(message.end_ns + ns(30) - 1)
        outputs += stage.process([message])
        sizes.append(len(stage.snapshot()))
    published = list(episodes(outputs))
    assert len({f.id for f in published}) == 1
    assert {after(f.started_at_ns) for f in published} == {20}
    assert Status.RETRACTED not in {f.status for f in published}
    assert max(sizes[300:]) <= max(sizes[:300]) * 1.2


def test_an_error_is_evicted_after_an_hour_and_a_step_after_a_week() -> None:
    """A loss is retained for some minutes, and a level for as long as it may be part of a trend."""

    def retained(messages: Sequence[Message], until_min: float) -> int:
        stage = begun(Correlate(DetectParams()))
        stage.process(messages)
        stage.advance_watermark(at(MINUTE * until_min))
        return stage.snapshot().count(b"begin_ns")

    error, step = lossy(HOST, 1, *CLEAN), [minute(HOST, 0, {POWER: -4.0}, before={POWER: -3.0})]
    assert (retained(error, 59), retained(error, 75)) == (11, 0)
    assert (retained(step, 75), retained(step, 60 * 24 * 6), retained(step, 60 * 24 * 8)) == (1, 1, 0)


def test_two_spells_with_a_quiet_hour_between_are_two() -> None:
    """The second is another finding with an id of its own."""
    found = last(degrading_findings([*lossy(HOST, *BAD, *CLEAN), *lossy(HOST, *BAD, *CLEAN, first=75)]))
    assert len(found) == 2
    assert {f.status for f in found} == {Status.RESOLVED}


def test_a_trend_has_a_forecast_of_the_crossing() -> None:
    """A BER that doubles every half hour: the time at which it reaches 1e-5, and an interval that holds it."""
    steps = [1e-8 * 2 ** (n + (0.1 if n % 2 else -0.1)) for n in range(7)]
    found = degrading_findings(bers(HOST, *steps, every=30), 190)
    newest = found[-1]
    assert (newest.status, newest.severity) in {(Status.OPEN, Severity.INFO), (Status.UPDATED, Severity.INFO)}
    assert newest.forecast is not None and newest.forecast.at_ns is not None
    doublings = 9.97
    assert after(newest.forecast.at_ns) == pytest.approx(doublings * 1800 + 70, abs=900)
    assert newest.forecast.earliest_ns is not None and newest.forecast.latest_ns is not None
    assert newest.forecast.earliest_ns < newest.forecast.at_ns < newest.forecast.latest_ns
    assert "reaches 1e-05 in about" in newest.summary
    assert newest.evidence[0].comparison == "trend"


def test_a_trend_that_stops_is_over_after_a_day() -> None:
    """The forecast crossing did not occur."""
    steps = [1e-8 * 2**n for n in range(6)]
    (final,) = last(degrading_findings(bers(HOST, *steps, every=30), 60 * 30))
    assert (final.status, final.final, final.forecast) == (Status.RESOLVED, True, None)


def test_evidence_has_numbers_and_the_lane_that_is_bad() -> None:
    """Evidence has each end's strongest sign, the lane's share against the others, and the forecast of the FEC bins."""
    bins = tuple(1e12 * 10 ** (-0.8 * n) for n in range(16))
    bad = [minute(HOST, n, {FCS: 4, PACKETS: BUSY, LANES: (1.0, 0.0, 2.0, 998.0), BINS: bins}) for n in range(3)]
    (found,) = last(degrading_findings([*bad, *lossy(LEAF, *BAD, 0)], 5))
    assert [(e.metric, e.at and e.at.device) for e in found.evidence] == [
        ("rx_fcs_errors", "p1-h1"), ("rx_fcs_errors", "p1-l0"), ("lane_raw_errors", "p1-h1"),
        ("fec_codewords_by_errors", "p1-h1"),
    ]  # fmt: skip
    first, _, lane, tail = found.evidence
    assert (first.observed, first.expected, first.comparison) == (12.0, 5.0, "threshold")
    assert (after(first.window_start_ns), after(first.window_end_ns)) == (-400, 200)
    assert first.statement == "p1-h1/e0: 12 frames lost in 600 s by rx_fcs_errors, in 3 windows or more"
    assert lane.statement == "p1-h1/e0: lane 3 has 99.7% of the raw errors of 4 lanes"
    assert tail.observed == pytest.approx(10**-12.8 / (1 - 10**-0.8), rel=0.3)
    assert (found.confidence, found.coverage and found.coverage.seen) == (0.95, 2)
    assert found.summary.startswith("p1-h1/e0 -- p1-l0/d1 loses frames: 12 at p1-h1/e0; one lane")


REPLAYS: dict[str, tuple[list[Message], str, list[tuple[str, float]]]] = {
    # windows; predicate of the summary, evidence
    "uncorrected, received bad and sent again": (
        [*replayed(HOST, {FEC: 17, DAMAGED: 17}), *replayed(LEAF, {AGAIN: 17, GONE: 0})],
        "replays frames: 51 at p1-h1/e0, none lost", [("llr_rx_bad", 51), ("llr_tx_replays", 51)]),
    "uncorrected only": (
        replayed(HOST, {FEC: 17}), "replays frames: 51 at p1-h1/e0, none lost", [("llr_rx_bad", 51)]),
    "while the receiver does not count": (
        [*lossy(HOST, *BAD, *CLEAN, metric=FEC), *replayed(LEAF, {AGAIN: 4})],
        "replays frames: 12 at p1-h1/e0, none lost", [("llr_rx_bad", 12), ("llr_tx_replays", 12)]),
    "while LLR is down": (
        [minute(HOST, n, {FEC: 4 * (n < 3), OK: 0, DAMAGED: 0, PACKETS: BUSY}) for n in range(13)],
        "loses frames: 12 at p1-h1/e0", [("fec_uncorrected_codewords", 12)]),
    "discarded by the transmitter": (
        replayed(LEAF, {AGAIN: 40, GONE: 4}),
        "loses frames: 12 at p1-l0/d1", [("llr_tx_discards", 12), ("llr_tx_replays", 120)]),
    "control frames, which are not replayed": (
        replayed(HOST, {FCS: 20, DAMAGED: 10, POISONED: 6}),
        "loses frames: 12 at p1-h1/e0", [("rx_fcs_errors", 12), ("llr_rx_bad", 30)]),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "summary", "evidence"), REPLAYS.values(), ids=REPLAYS)
def test_frames_that_a_link_sends_again_are_not_lost(
    messages: Sequence[Message], summary: str, evidence: list[tuple[str, float]]
) -> None:
    """Link-level retry: lost are the frames that the transmitter discards, and those that it does not protect."""
    (final,) = last(degrading_findings(messages))
    assert summary in final.summary
    assert [(one.metric, one.observed) for one in final.evidence] == evidence
    assert ("replayed" in final.evidence[0].statement) == ("replays" in summary)


def test_replays_state_the_share_of_time_that_they_cost() -> None:
    """135,000 bytes each at 400 Gb/s: 51 replays in ten minutes cost 2.3e-7 of it."""
    links = tuple(link._replace(speed_bps=400 * 10**9) for link in inventory().links)
    top = topology(replace(inventory(), links=links))
    (final,) = last(degrading_findings(replayed(HOST, {DAMAGED: 17}), top=top))
    assert final.evidence[0].statement == (
        "p1-h1/e0: 51 frames replayed in 600 s by llr_rx_bad, which cost at most 2e-07 of its time"
    )


def test_symbol_errors_of_infiniband_are_a_ber_by_the_generation_of_the_link() -> None:
    """Errors are counted, and compared with those that InfiniBand's 1e-12 permits at the link's speed."""
    links = tuple(link._replace(speed_bps=100 * 10**9) for link in inventory().links)
    top = topology(replace(inventory(), links=links))
    (final,) = last(degrading_findings([minute(HOST, n, {SYMBOLS: 2 * (n < 3)}) for n in range(13)], top=top))
    assert "by uncorrected_symbols (a BER of 1e-13, 1e-12 permitted)" in final.evidence[0].statement


def test_the_larger_of_two_sources_counts_and_never_their_sum() -> None:
    """Two collectors that read the same port."""
    (found,) = last(degrading_findings([*lossy(HOST, *BAD, *CLEAN), *lossy(HOST, 5, 5, 5, *CLEAN, source=SNMP)]))
    assert [e.observed for e in found.evidence] == [15.0]


def _through_both(messages: Sequence[Message], size: int = 1, cut: int = -1) -> list[Finding]:
    """The last revisions after `measure` and `correlate`, both restored from snapshots before message `cut`."""
    first, second = measure_stage(), begun(Correlate(DetectParams()))
    outputs = []
    for number in range(0, len(messages), size):
        if number <= cut < number + size:
            first.restore(first.snapshot())
            second = begun(Correlate(DetectParams()), state=second.snapshot(), epoch=2)
        for output in first.process(messages[number : number + size]):
            if isinstance(output.message, Window | Symptom):
                outputs += second.process([output.message])
    outputs += second.advance_watermark(max((_time(one) for one in messages), default=0) + 10**14)
    return [replace(f, revision=0) for f in last(episodes(outputs))]


def _time(message: Message) -> int:
    assert isinstance(message, Samples)
    return message.sampled_at_ns
