"""The size of requests: even shares, and small ones if large ones are lost."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.snmp.read import ONE_FRAME, BulkSize, columns, repetitions


@given(st.integers(1, 5000), st.integers(1, 1000))
def test_shares_are_even_and_no_more_of_them_than_needed(rows: int, most: int) -> None:
    """As many requests as the largest would take, and each as small as that allows."""
    share = repetitions(rows, most)
    requests = -(-rows // most)
    assert 1 <= share <= most
    assert requests * share >= rows > requests * (share - 1)


def test_an_unknown_number_of_rows_requests_the_maximum() -> None:
    """A table that was never read, or that has grown."""
    assert [repetitions(rows, 20) for rows in (0, -1, -40)] == [20, 20, 20]


def test_after_a_loss_requests_are_small_each_time_for_twice_as_long() -> None:
    """Large ones are tried again in between, at the latest after 1024 walks."""
    size, pauses = BulkSize(200), []
    for _ in range(10):
        assert size.values == 200
        size.was_lost()
        walks = 0
        while size.values == ONE_FRAME:
            size.walked()
            walks += 1
        pauses.append(walks)
    assert pauses == [8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]


def test_losses_within_a_pause_count_once() -> None:
    """Several requests may be lost before the first small answer."""
    size = BulkSize(200)
    for _ in range(5):
        size.was_lost()
    for _ in range(8):
        size.walked()
    assert size.values == 200


def test_a_size_that_a_device_refused_is_not_requested_again() -> None:
    """Half of it, and half of that, down to one."""
    size = BulkSize(100)
    for asked, left in ((96, 48), (40, 20), (1, 1)):
        size.was_too_big(asked)
        assert size.values == left


def requests(count: int, rows: int, most: int, wide: int) -> int:
    """Return the number of requests for so many columns by a width."""
    return -(-count // wide) * -(-rows // (most // wide))


@given(st.integers(1, 60), st.integers(1, 600), st.integers(1, 200))
def test_columns_are_grouped_for_the_fewest_requests(count: int, rows: int, most: int) -> None:
    """Never more requests than one column each, and every request has a part of each column."""
    wide = columns(count, rows, most)
    assert 1 <= wide <= min(10, most)
    assert requests(count, rows, most, wide) <= min(
        requests(count, rows, most, other) for other in range(1, min(count, most, 10) + 1)
    )


def test_a_switch_of_64_ports_takes_22_requests_by_100() -> None:
    """31 columns and the end of each."""
    assert (columns(31, 65, 100), requests(31, 65, 100, 3)) == (3, 22)
    assert columns(31, 0, 100) == 5
