"""Tests the accounting of one flow: directions from counts, discarded probes, runs, times."""

import pytest

from collectors.probe.flow_window import FlowProbes, FlowWindow, Reply

RUN = b"\0\0\0\1"


class Path:
    """Sends probes, of which some are lost on the way there or back."""

    def __init__(self) -> None:
        self.flow = FlowProbes()
        self.count = 0

    def send(self, fates: str, run: bytes = RUN, dropped: int = 0) -> None:
        """Send one probe for each letter: `.` is answered, `f` lost forward, `r` lost back."""
        for fate in fates:
            sequence = self.flow.sent(1000 * len(self.flow.probes))
            self.count += fate != "f"
            if fate == ".":
                sent_ns = self.flow.probes[sequence].sent_ns
                self.flow.replied(sequence, Reply(self.count, run, dropped, 500, 700, sent_ns + 230))

    def window(self) -> FlowWindow:
        return self.flow.evaluate(self.flow.next_sequence)


@pytest.mark.parametrize(
    ("fates", "lost"),
    [
        (".....", (0, 0, 0)),
        (".f.", (1, 0, 0)),
        (".r.", (0, 1, 0)),
        (".ffr.r.", (2, 2, 0)),
        ("..f", (0, 0, 1)),
        ("fff", (0, 0, 3)),
        ("f..", (0, 0, 1)),
    ],
)
def test_the_direction_of_a_loss_follows_from_the_counts_around_it(fates: str, lost: tuple[int, int, int]) -> None:
    """Without a reply before and after it the direction is unknown."""
    path = Path()
    path.send(fates)
    window = path.window()
    assert (window.forward_lost, window.reverse_lost, window.unanswered) == lost
    assert window.sent == len(fates) and window.lost == sum(lost)


def test_a_gap_over_two_windows_is_counted_once() -> None:
    """The second window leaves out what the first reported as unanswered."""
    path = Path()
    path.send("...ff")
    assert path.window().unanswered == 2
    path.send("f...")
    window = path.window()
    assert (window.sent, window.lost, window.forward_lost) == (4, 1, 1)


def test_a_reply_after_the_window_gives_the_direction_of_its_last_losses() -> None:
    """Replies have time to come before a window is evaluated."""
    path = Path()
    path.send("..f")
    end = path.flow.next_sequence
    path.send(".")
    assert path.flow.evaluate(end)[:3] == (3, 1, 0)
    assert path.window()[:4] == (1, 0, 0, 0)


def test_losses_in_a_row_continue_over_windows() -> None:
    """A blackhole is one run, however long."""
    path = Path()
    runs = []
    for fates in ("..ff", "ffff", "f..f"):
        path.send(fates)
        runs.append(path.window().lost_run)
    assert runs == [2, 6, 7]


@pytest.mark.parametrize(("run", "dropped"), [(b"\0\0\0\2", 0), (RUN, 5)])
def test_a_responder_that_restarted_or_dropped_requests_itself_is_no_loss(run: bytes, dropped: int) -> None:
    """Its host is the reason, not the network."""
    path = Path()
    path.send("..fff")
    path.send("..", run, dropped)
    window = path.window()
    assert (window.sent, window.lost, window.discarded, window.lost_run) == (4, 0, 3, 0)


def test_probes_around_a_stall_are_discarded_and_others_count() -> None:
    """The stall concerns those that have no reply since then."""
    path = Path()
    path.send(".f.f")
    path.flow.discard(since_ns=3000)
    path.send(".")
    window = path.window()
    assert (window.sent, window.forward_lost, window.discarded) == (4, 1, 1)


def test_times_are_without_the_time_at_the_responder() -> None:
    """The responder's two times are of one clock, the prober's of another."""
    path = Path()
    path.send("..")
    window = path.window()
    assert (window.rtt_ns, window.responder_ns) == ((30, 30), (200, 200))


@pytest.mark.parametrize("arrived_ns", [-(10**9), 10**10])
def test_a_step_of_a_clock_is_no_round_trip_time(arrived_ns: int) -> None:
    """Negative differences, and those of more than a second, are left out."""
    flow = FlowProbes()
    flow.replied(flow.sent(0), Reply(1, RUN, 0, 5, 5, arrived_ns))
    assert flow.evaluate(1).rtt_ns == ()


def test_forged_and_repeated_replies_change_nothing() -> None:
    """A reply to no probe, or to one that has a reply."""
    path = Path()
    path.send(".f.")
    assert not path.flow.replied(1_000, Reply(9, RUN, 0, 0, 0, 0))
    assert not path.flow.replied(0, Reply(9, RUN, 0, 0, 0, 0))
    assert path.window().forward_lost == 1


def test_overtaken_replies_are_counted() -> None:
    """The reply to an earlier probe comes after that to a later one."""
    flow = FlowProbes()
    for _ in range(3):
        flow.sent(0)
    for count, sequence in ((1, 0), (3, 2), (2, 1)):
        flow.replied(sequence, Reply(count, RUN, 0, 0, 0, 10))
    window = flow.evaluate(3)
    assert (window.reordered, window.lost) == (1, 0)


def test_a_blackhole_of_days_retains_a_bounded_state() -> None:
    """Without replies the last one is forgotten, and the first reply after it begins again."""
    path = Path()
    path.send(".")
    for _ in range(30):
        path.send("f" * 100)
        assert path.window().unanswered in (99, 100)
        assert len(path.flow.probes) == 0
    path.send("..")
    assert path.window()[:4] == (2, 0, 0, 0)
