"""A worker's own clock may be wrong from the start, jump or stand still: the time of its stages is the brokers'."""

from dataclasses import dataclass, field

import pytest

from streams.instrument.clock import BrokerClock

S = 10**9
BEGIN_S = 1_000_000
YEAR_S = 365 * 86_400


@dataclass
class Host:
    """A host whose clock is ahead of the true time by `wall_s`, and a broker ahead by `broker_s`."""

    wall_s: float = 0.0
    broker_s: float = 0.0
    t: float = 0.0
    clock: BrokerClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = BrokerClock(self, lambda: round(self.t * S))

    def now_ns(self) -> int:
        return round((BEGIN_S + self.t + self.wall_s) * S)

    def acknowledge(self, for_s: float, delay_s: float = 0.01) -> None:
        """Let a broker acknowledge one record a second."""
        for _ in range(round(for_s)):
            self.t += 1
            self.clock.observe(round((BEGIN_S + self.t + self.broker_s - delay_s) * S))

    @property
    def error_s(self) -> float:
        return self.clock.now_ns() / S - BEGIN_S - self.t


@pytest.mark.parametrize("wall_s", [-3600, -25, 29, 7200, YEAR_S, -YEAR_S])
def test_a_wrong_clock_of_the_host_changes_nothing(wall_s: float) -> None:
    """From the first acknowledgement on the time is the brokers'."""
    host = Host(wall_s)
    host.acknowledge(1)
    assert abs(host.error_s) < 0.1
    assert abs(host.clock.wall_offset_ns / S - wall_s) < 0.1
    host.t += 600
    assert abs(host.error_s) < 0.1


@pytest.mark.parametrize("jump_s", [-3600, 29, YEAR_S])
def test_a_clock_of_the_host_that_jumps_and_jumps_back_changes_nothing(jump_s: float) -> None:
    host = Host()
    host.acknowledge(10)
    for wall_s in (jump_s, 0, jump_s):
        host.wall_s = wall_s
        assert abs(host.error_s) < 0.1
        host.acknowledge(10)
        assert abs(host.error_s) < 0.1


@pytest.mark.parametrize("broker_s", [-3600, 3600, YEAR_S])
def test_a_broker_with_a_clock_that_steps_is_refused(broker_s: float) -> None:
    """The last acknowledgements and the host agree against it."""
    host = Host()
    host.acknowledge(10)
    host.broker_s = broker_s
    host.acknowledge(10)
    assert abs(host.error_s) < 0.1
    assert host.clock.refused == 10


def test_a_broker_that_was_wrong_at_the_start_is_replaced_when_it_is_set_right() -> None:
    """The host's clock confirms the new time."""
    host = Host(broker_s=YEAR_S)
    host.acknowledge(10)
    host.broker_s = 0
    host.acknowledge(1)
    assert abs(host.error_s) < 0.1


def test_late_acknowledgements_and_a_drifting_clock_are_followed() -> None:
    """Delays of some seconds change nothing, and a host that counts too fast by 200 ppm is corrected."""
    host = Host()
    host.acknowledge(10)
    host.acknowledge(5, delay_s=20)
    assert abs(host.error_s) < 0.1
    for _ in range(1000):
        host.broker_s -= 0.002
        host.acknowledge(1)
        host.t += 9
    assert abs(host.error_s - host.broker_s) < 0.1


def test_the_clock_of_the_host_is_used_before_the_first_acknowledgement() -> None:
    """There is no other."""
    assert Host(wall_s=5).error_s == 5
