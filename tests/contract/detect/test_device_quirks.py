"""Quirks of devices and collectors in their readings: a table of which no row may give a finding."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from streams.fabric.catalogue import Metric
from streams.wire.models import Finding, Message, Source, Status
from tests.worlds.observations import GNMI, NIC, SNMP, at, samples
from tests.worlds.small_world import findings, play, status

UNTIL_S = 1200
PORTS = ("e0", "e1")
Value = float | None


def healthy(n: int) -> dict[Metric, Value]:
    """Return the n-th reading of a healthy port; its counters have some old errors."""
    return {
        Metric.OPER_UP: 1, Metric.ADMIN_UP: 1, Metric.SPEED_BPS: 400e9, Metric.LINK_DOWN_EVENTS: 7,
        Metric.LINK_TRANSITIONS: 14, Metric.RX_BYTES: 10**12 + n * 10**10, Metric.RX_PACKETS: 10**9 + n * 10**7,
        Metric.RX_FCS_ERRORS: 40, Metric.RX_SYMBOL_ERRORS: 4, Metric.FEC_UNCORRECTED_CODEWORDS: 3,
        Metric.LINK_ERROR_RECOVERIES: 2, Metric.PRE_FEC_BER: 1e-9, Metric.RX_POWER_DBM: -1.2,
        Metric.MODULE_TEMPERATURE_C: 48,
    }  # fmt: skip


def readings(
    change: Callable[[int], Mapping[Metric, Value]] = lambda _: {},
    *,
    cadence: Callable[[int], float] = lambda _: 10,
    skew: Callable[[str], float] = lambda _: 0,
    collector: Callable[[int], str] = lambda _: "g0",
    source: Source = GNMI,
) -> Iterator[Message]:
    """Return changed readings of a host and its leaves, and the status of their collectors."""
    for device in ("p1-h1", "p1-l0", "p1-l1"):
        t, n = 0.0, 0
        while t <= UNTIL_S:
            values = {**healthy(n), **change(n)}
            ports = PORTS if device == "p1-h1" else ("d1",)
            cells: dict[Metric, dict[str, Value]] = {
                metric: dict.fromkeys(ports, value) for metric, value in values.items()
            }
            yield samples(device, t + skew(device), cells, source=source, received=t, sequence=n)
            if n % 6 == 0 or collector(n) != collector(n - 1):
                yield replace(status(device, t, cadence=cadence(n), collector=collector(n)), source=source)
            t, n = t + cadence(n), n + 1


ERRORS = (
    Metric.LINK_DOWN_EVENTS, Metric.LINK_TRANSITIONS, Metric.RX_FCS_ERRORS, Metric.RX_SYMBOL_ERRORS,
    Metric.FEC_UNCORRECTED_CODEWORDS, Metric.LINK_ERROR_RECOVERIES,
)  # fmt: skip


def _from_zero(n: int) -> dict[Metric, Value]:
    """Return counters that restart at the fiftieth reading, without a reported restart, and grow on."""
    if n < 50:
        return {}
    traffic = {Metric.RX_BYTES: (n - 50) * 10**10, Metric.RX_PACKETS: (n - 50) * 10**7}
    return {**dict.fromkeys(ERRORS, 0), **traffic}


def _up_and_down(n: int) -> dict[Metric, Value]:
    """Return errors that fall by a few each reading, by a firmware bug."""
    return {Metric.RX_FCS_ERRORS: 1000 - n, Metric.LINK_DOWN_EVENTS: 500 - n, Metric.LINK_ERROR_RECOVERIES: 200 - n}


NOTHING: dict[str, Iterator[Message]] = {
    "nothing at all": readings(),
    "counters that restart": readings(_from_zero),
    "counters that only fall": readings(_up_and_down),
    "bytes that wrap at 32 bits": readings(lambda n: {Metric.RX_BYTES: (n * 10**10) % 2**32}),
    "bytes that wrap at 64 bits": readings(lambda n: {Metric.RX_BYTES: (2**64 - 10**11 + n * 10**9) % (2**64 - 1)}),
    "8 bits that stick at their end": readings(lambda _: {Metric.LINK_ERROR_RECOVERIES: 255}),
    "16 bits that stick at their end": readings(lambda _: {Metric.RX_SYMBOL_ERRORS: 65_535}),
    "4 bits that stick at their end": readings(lambda _: {Metric.LOCAL_LINK_INTEGRITY_ERRORS: 15}),
    "counters that are read now and then": readings(
        lambda n: {Metric.RX_FCS_ERRORS: 40 if n % 3 else None, Metric.LINK_DOWN_EVENTS: 7 if n % 5 else None}
    ),
    "counters that are there from some time on": readings(lambda n: {Metric.RX_ERRORS: None if n < 60 else 12_345}),
    "a state that is not read for a while": readings(lambda n: {Metric.OPER_UP: None if 20 < n < 40 else 1}),
    "one stray checksum error": readings(lambda n: {Metric.RX_FCS_ERRORS: 40 + (n >= 50)}),
    "a single symbol error now and then": readings(lambda n: {Metric.RX_SYMBOL_ERRORS: 4 + n // 10}),
    "a cadence that becomes half": readings(cadence=lambda n: 10 if n < 50 else 5),
    "a cadence that becomes three times as long": readings(cadence=lambda n: 10 if n < 50 else 30),
    "clocks that are apart by seconds": readings(skew=lambda device: {"p1-h1": -4.0, "p1-l0": 0.9}.get(device, 0.0)),
    "a collector that hands its targets to another": readings(collector=lambda n: "g0" if n < 60 else "g1"),
    "the same from SNMP": readings(source=SNMP),
    "the same from the NIC": readings(source=NIC),
}  # fmt: skip


@pytest.mark.parametrize("messages", NOTHING.values(), ids=list(NOTHING))
def test_it_gives_no_finding(messages: Iterator[Message]) -> None:
    """Twenty minutes of it give no finding."""
    assert [one for one in play(messages) if isinstance(one, Finding)] == []


def test_a_clock_that_is_an_hour_ahead_is_the_only_finding() -> None:
    """The clock itself is a finding; it causes no other."""
    found = findings(play(readings(skew=lambda device: 3600.0 * (device == "p1-l0"))))
    assert {(f.detector, f.subject.id) for f in found} == {("device/clock-skew", "device:p1-l0")}


def test_a_reset_does_not_hide_a_later_fault() -> None:
    """The counters restart, and five minutes later the link flaps: the flap is found."""

    def flapping(n: int) -> dict[Metric, Value]:
        return {**_from_zero(n), Metric.LINK_DOWN_EVENTS: 7 if n < 50 else min(3, max(0, n - 80))}

    found = [f for f in findings(play(readings(flapping))) if f.status is not Status.RETRACTED]
    assert {f.detector for f in found} == {"link/flap"}
    assert {f.started_at_ns // 10**9 - at(0) // 10**9 for f in found} == {810}
