"""A pause of the process is detected, and its own work is none."""

from streams.instrument.clock import Attendance


class Clocks:
    """The elapsed and the computing time of a process, in seconds."""

    def __init__(self) -> None:
        self.now_s = self.used_s = 0.0
        self.attendance = Attendance(16, lambda: self.now_s, lambda: self.used_s)

    def was_away(self, after_s: float, used_s: float = 0) -> bool:
        self.now_s += after_s
        self.used_s += used_s
        return self.attendance.was_away()


def test_only_a_pause_longer_than_half_the_session_counts() -> None:
    """Others may own the work before a whole session is over. Shorter pauses do not add up; a longer one counts until
    the work is begun again.
    """
    clocks = Clocks()
    assert [clocks.was_away(7) for _ in range(3)] == [False, False, False]
    assert [clocks.was_away(after_s) for after_s in (9, 0.1, 1)] == [True, True, True]
    clocks.attendance.resume()
    assert not clocks.was_away(0.1)


def test_resume_ends_only_the_pause_before_it() -> None:
    """A later one is found again."""
    clocks = Clocks()
    clocks.now_s += 100
    clocks.attendance.resume()
    assert [clocks.was_away(1), clocks.was_away(9)] == [False, True]


def test_time_of_its_own_work_is_no_pause() -> None:
    """An inventory of the largest fabric may take seconds, while another thread keeps the session."""
    clocks = Clocks()
    assert [clocks.was_away(20, used_s=19), clocks.was_away(20, used_s=11)] == [False, True]
