"""Tests which evidence qualifies a link, and which bounds of error rates follow from it."""

from dataclasses import replace

import pytest

from lab.constants import with_constants
from streams.decide.qualification import (
    EndEvidence,
    QualificationParams,
    ReadingsRun,
    extend,
    find_doubts,
    find_fault,
    upper_bound,
)
from streams.wire.models import PortReadings
from tests.worlds.observations import at

RATE = 4e11
PARAMS = QualificationParams()


def readings(begin: float, end: float, **changes: float | None) -> PortReadings:
    """A stretch of sound readings of a port with 400 Gb/s."""
    sound = PortReadings(
        "u0", at(begin), at(end), RATE * (end - begin), 5e-6, 1e-8, RATE * (end - begin) * 1e-8, 0.0,
        -1.0, -3.0, 0.5, -1.5, 21.0, 19.0,
    )  # fmt: skip
    return replace(sound, **changes)  # type: ignore[arg-type]


def run_of(*stretches: PortReadings) -> ReadingsRun:
    """The run that follows from stretches."""
    run = None
    for stretch in stretches:
        run = extend(run, stretch)
    assert run is not None
    return run


def minutes(begin: float, count: int, **changes: float | None) -> list[PortReadings]:
    return [readings(begin + 60 * n, begin + 60 * (n + 1), **changes) for n in range(count)]


def end(run: ReadingsRun | None, since: float = 0, **changes: object) -> EndEvidence:
    own = EndEvidence("leaf/u0", "", at(since), () if run is None else (run,))
    return replace(own, **changes)  # type: ignore[arg-type]


def doubts(*ends: EndEvidence, t: float = 960) -> list[str]:
    return find_doubts(PARAMS, ends, at(t))


@pytest.mark.parametrize(
    ("errors", "confidence", "expected"),
    [
        (0, 0.95, 3.00), (1, 0.95, 4.74), (2, 0.95, 6.30), (0, 0.99, 4.61), (100, 0.95, 118.1), (101, 0.95, 119.2),
        (384, 0.95, 417.6),
    ],
)  # fmt: skip
def test_the_upper_bound_of_a_number_of_errors(errors: float, confidence: float, expected: float) -> None:
    """The values of the table of REMEDIATION.md: np = 3.00, 4.74, 6.30; both methods agree where they meet."""
    assert upper_bound(errors, confidence) == pytest.approx(expected, rel=3e-3)


def test_900_seconds_without_a_fault_qualify() -> None:
    """Both ends are sound for 960 s."""
    assert doubts(end(run_of(*minutes(0, 17))), end(run_of(*minutes(0, 16)), since=20), t=960) == []


def test_less_time_or_fewer_readings_do_not_qualify() -> None:
    """The state must be old enough, and readings must cover that time, at every end."""
    sound = end(run_of(*minutes(0, 16)))
    young = doubts(sound, end(run_of(*minutes(120, 14)), since=120))
    assert young == ["leaf/u0 is up without a transition for 840 s of 900 s"]
    unread = doubts(sound, end(None))
    assert unread == ["leaf/u0: no counter of errors and no BER is read"]
    partly = doubts(sound, end(run_of(*minutes(480, 8))))
    assert partly == ["leaf/u0: 480 s of 900 s of sound readings"]
    assert doubts(sound, end(None, not_carrying="leaf/u1 is down")) == ["leaf/u1 is down"]
    assert find_doubts(PARAMS, [], at(0)) == ["no end is read"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"errors": 1.0}, "1 symbol errors or lost frames"),
        ({"ber": 5e-6}, "pre-FEC BER 5.0e-06, limit 5e-06"),
        ({"rx_power_dbm": -3.0}, "receive power -3.0 dBm, limit -3.0 dBm"),
        ({"tx_power_dbm": -4.0}, "transmit power -4.0 dBm, limit -1.5 dBm"),
        ({"snr_db": 18.0}, "SNR 18.0 dB, limit 19.0 dB"),
    ],
)
def test_one_fault_begins_the_time_again(fault: dict[str, float], reason: str) -> None:
    """Sound readings before a fault count no more, and the reason names the fault."""
    assert find_fault(readings(0, 60, **fault)) == reason
    run = run_of(*minutes(0, 10), readings(600, 660, **fault), *minutes(660, 5))
    assert (run.begin_ns, run.interrupted) == (at(660), reason)
    assert doubts(end(run)) == [f"leaf/u0: 300 s of 900 s of sound readings since {reason}"]
    assert not doubts(end(run_of(readings(0, 60, **fault), *minutes(60, 15))))


def test_a_gap_begins_the_time_again_and_a_repetition_changes_nothing() -> None:
    """Readings must follow each other; those that come twice, as after a restart, are part of the run already."""
    run = run_of(*minutes(0, 5), *minutes(360, 5))
    assert (run.begin_ns, run.interrupted) == (at(360), "readings are missing")
    assert run_of(*minutes(0, 5), *minutes(2, 2), *minutes(0, 5)) == run_of(*minutes(0, 5))


def test_a_transition_after_the_readings_counts() -> None:
    """Readings before the last transition of a port are no evidence, whatever they show."""
    run = run_of(*minutes(0, 30))
    assert doubts(end(run, since=600), t=1800) == []
    found = doubts(end(run, since=930), t=1840)
    assert found == ["leaf/u0: 870 s of 900 s of sound readings"]


def test_what_the_bits_do_not_prove_is_not_proven() -> None:
    """A bound above the limit does not qualify, however few errors there were; nor do unknown bits."""
    few = end(run_of(*minutes(0, 15, bits=1e10, raw_errors=None, ber=None)))
    assert doubts(few) == ["leaf/u0: 1.5e+11 bits prove an error rate below 2.0e-11, not 1e-12"]
    unknown = end(run_of(*minutes(0, 15, bits=0.0)))
    assert doubts(unknown) == ["leaf/u0: neither bits nor the speed of the port are known"]
    params = with_constants(QualificationParams, ber=1e-3)()
    noisy = end(run_of(*minutes(0, 15, bits=1e5, raw_errors=0.4, ber=4e-6)))
    (reason,) = find_doubts(params, [noisy], at(960))
    assert reason == "leaf/u0: 1.5e+06 bits prove a pre-FEC BER below 7.9e-06, not 5e-06"


def test_one_kind_of_evidence_suffices_where_the_other_is_not_read() -> None:
    """A link without FEC has no BER, and some devices have no counter of symbol errors; neither has no evidence."""
    plain = minutes(0, 15, ber=None, raw_errors=None, rx_power_dbm=None, tx_power_dbm=None, snr_db=None)
    assert not doubts(end(run_of(*plain)))
    assert not doubts(end(run_of(*minutes(0, 15, errors=None))))
    assert doubts(end(run_of(*minutes(0, 15, errors=None, ber=None))))


def test_all_live_sources_of_a_port_must_agree() -> None:
    """A second source that saw a fault is not outvoted."""
    sound, faulty = run_of(*minutes(0, 15)), run_of(*minutes(0, 9), readings(540, 600, errors=2.0), *minutes(600, 5))
    assert doubts(end(None, runs=(sound, faulty)))
    assert not doubts(end(None, runs=(sound, sound)))


def test_the_switch_alone_qualifies_only_where_the_host_s_end_is_not_required() -> None:
    """A host without a collector."""
    host = end(None, not_carrying="host/e0 is not observed")
    assert doubts(end(run_of(*minutes(0, 15))), host)
    assert not doubts(end(run_of(*minutes(0, 15))), replace(host, required=False))
