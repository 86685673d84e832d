"""From the kernel's clock to the time of day."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.host.lines import Line, Times, system_boot_ns
from tests.fakes.boot_time import NOW, ZERO, S, SetZero

POLL = S // 4


def line(at_ns: int, zero_ns: int = ZERO) -> Line:
    """A line whose kernel's clock was at 0 at this time."""
    return Line("", (at_ns - zero_ns) // 1000)


def test_a_clock_that_runs_true_is_believed() -> None:
    """Old lines and new ones."""
    times = Times(SetZero())
    assert times.at_ns(line(NOW - 3600 * S), NOW, None) == NOW - 3600 * S
    assert times.at_ns(line(NOW - S // 10), NOW, POLL) == NOW - S // 10
    assert times.lag_ns == 0


@given(st.integers(-3600, 3600), st.integers(0, POLL))
def test_a_clock_that_is_off_is_put_right_by_the_first_line_that_is_read_as_it_is_written(
    off_s: int, waited_ns: int
) -> None:
    """To within the time between two looks; `dmesg -T` is off by minutes on a host that has been up for weeks."""
    times = Times(SetZero())
    result = times.at_ns(line(NOW - waited_ns - off_s * S), NOW, POLL)
    assert result is not None and abs(result - (NOW - waited_ns)) <= POLL + 1000
    again = times.at_ns(line(NOW + 60 * S - off_s * S), NOW + 60 * S, POLL)
    assert again is not None and abs(again - (NOW + 60 * S)) <= POLL + 1000


@given(st.integers(0, 10**15), st.integers(0, 10**18), st.one_of(st.none(), st.integers(0, POLL)))
def test_nothing_is_reported_to_happen_in_the_future(since_us: int, zero_ns: int, waited_ns: int | None) -> None:
    result = Times(SetZero(zero_ns)).at_ns(Line("", since_us, None), NOW, waited_ns)
    assert result is None or result <= NOW


def test_what_the_writer_of_a_file_reports_holds_where_the_clocks_are_of_different_boots() -> None:
    """If both agree within two seconds, the kernel's time is used, because it is finer."""
    times = Times(SetZero())
    fine = Line("", (NOW - 10 * S + 400_000_000 - ZERO) // 1000, NOW - 10 * S)
    assert times.at_ns(fine, NOW, None) == NOW - 10 * S + 400_000_000
    earlier_boot = Line("", 5_000_000, NOW - 86_400 * S)
    assert times.at_ns(earlier_boot, NOW, None) == NOW - 86_400 * S


def test_lines_of_the_boot_before_are_dated_by_its_own_zero() -> None:
    """Until the clock goes back: then they are of the boot that runs."""
    times = Times(SetZero(NOW - 60 * S), boot_zero_ns=ZERO, last_us=(NOW - 200 * S - ZERO) // 1000)
    assert times.at_ns(line(NOW - 100 * S), NOW, None) == NOW - 100 * S
    assert times.at_ns(line(NOW - 20 * S, NOW - 60 * S), NOW, None) == NOW - 20 * S
    assert times.boot_zero_ns == 0


def test_without_any_clock_the_time_is_unknown() -> None:
    """Absent is not zero."""
    assert Times(SetZero(0)).at_ns(Line("", 5), NOW, None) is None
    assert Times(SetZero()).at_ns(Line(""), NOW, None) is None


def test_this_machines_own_kernel_began_before_now() -> None:
    assert system_boot_ns() > 0 and abs(system_boot_ns() - system_boot_ns()) < S // 10
