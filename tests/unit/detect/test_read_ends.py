"""The coverage of findings that one end of a link shows: the healthy end counts if its port and counters are read."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import orjson
import pytest

from streams.detect.evidence.episodes import BOTH_ENDS, ONE_END
from streams.detect.evidence.port_readers import ReadersByDevice
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import Condition, Coverage, Endpoint, Finding, Message, PortReaders, Samples
from streams.wire.stage import Output
from streams.wire.topics import SUMMARIES
from tests.worlds.live_stages import final_findings, in_order, run
from tests.worlds.measure_stage import stage
from tests.worlds.observations import GNMI, HOST, LEAF, NIC, at, samples
from tests.worlds.small_fabric import begun, inventory, topology

ROUND_S, ROUNDS = 10, 90
LOSSY_UNTIL = 60
UP, PACKETS, ERRORS = Metric.OPER_UP, Metric.RX_PACKETS, Metric.RX_FCS_ERRORS


def _reading(end: str, n: int, errors: int, *, has_counters: bool = True, other: str = "") -> Samples:
    device, _, port = end.partition("/")
    values: dict[Metric, dict[str, float | None]] = {UP: {other or port: 1}}
    if has_counters:
        values |= {PACKETS: {other or port: 1_000_000 * n}, ERRORS: {other or port: errors}}
    return samples(device, n * ROUND_S, values, source=GNMI if end == LEAF else NIC, sequence=n + 1)


def _lossy_leaf() -> Iterator[Samples]:
    for n in range(ROUNDS):
        yield _reading(LEAF, n, 50 * min(n, LOSSY_UNTIL))


def _healthy_host(rounds: range = range(ROUNDS), *, has_counters: bool = True, other: str = "") -> list[Samples]:
    return [_reading(HOST, n, 0, has_counters=has_counters, other=other) for n in rounds]


def _found(condition: Condition, messages: list[Message], killed: tuple[tuple[int, int], ...] = ()) -> Finding:
    own = inventory()
    links = tuple(link._replace(speed_bps=400 * 10**9) for link in own.links)
    top = topology(replace(own, links=links))
    (found,) = (one for one in final_findings(run(in_order(messages), top, killed)) if one.condition is condition)
    return found


def _degrading(messages: list[Message], killed: tuple[tuple[int, int], ...] = ()) -> Finding:
    return _found(Condition.LINK_DEGRADING, messages, killed)


def _faulty_leaf(fault: Condition) -> Iterator[Samples]:
    """Yield readings of a leaf that alone shows a fault from 120 to 420 s."""
    for n in range(ROUNDS):
        during = max(0, min(n, 42) - 12) * ROUND_S
        is_down = fault is Condition.LINK_DOWN and 12 <= n < 42
        sent = 50e9 * ROUND_S * n if fault is Condition.CONGESTION_INCAST else 50e9 * (ROUND_S * n - during)
        counts = {
            Metric.TX_BYTES: sent, PACKETS: 1e6 * (n - during / ROUND_S),
            Metric.TX_DISCARDS: 5000 * during * (fault is Condition.CONGESTION_INCAST),
            Metric.PFC_RX_PAUSE_USECONDS: 1e6 * during * (fault is Condition.CONGESTION_PFC_STORM),
            Metric.LINK_DOWN_EVENTS: during // 10 * (fault is Condition.LINK_FLAP),
        }  # fmt: skip
        values: dict[Metric, dict[str, float | None]] = {metric: {"d1": count} for metric, count in counts.items()}
        yield samples("p1-l0", n * ROUND_S, values | {UP: {"d1": 0 if is_down else 1}}, sequence=n + 1)


@pytest.mark.parametrize(
    ("fault", "host", "covered"),
    [
        (Condition.CONGESTION_INCAST, _healthy_host(), True),
        (Condition.CONGESTION_INCAST, [], False),
        (Condition.LINK_DOWN, _healthy_host(), False),
        (Condition.LINK_FLAP, _healthy_host(), False),
        (Condition.CONGESTION_PFC_STORM, _healthy_host(), False),
    ],
)
def test_a_healthy_end_counts_where_one_end_alone_can_show_the_fault(
    fault: Condition, host: list[Samples], *, covered: bool
) -> None:
    """Only one end drops the packets of an incast. Both are down, and both count pauses."""
    found = _found(fault, [*_faulty_leaf(fault), *host])
    expected = (Coverage(2, 2), BOTH_ENDS) if covered else (Coverage(1, 2, (HOST,)), ONE_END)
    assert (found.coverage, found.confidence) == expected


def test_a_link_with_two_read_ends_is_covered_though_one_of_them_is_healthy() -> None:
    found = _degrading([*_lossy_leaf(), *_healthy_host()])
    assert (found.coverage, found.confidence) == (Coverage(2, 2), BOTH_ENDS)


@pytest.mark.parametrize("stage_number", range(3))
def test_it_is_covered_after_a_kill_of_a_stage(stage_number: int) -> None:
    """`measure` sends the ports again, and the others have them in their snapshots."""
    found = _degrading([*_lossy_leaf(), *_healthy_host()], ((40, stage_number),))
    assert (found.coverage, found.confidence) == (Coverage(2, 2), BOTH_ENDS)


@pytest.mark.parametrize(
    "host",
    [
        [],
        _healthy_host(range(10)),
        _healthy_host(has_counters=False),
        _healthy_host(other="mlx5_9"),
    ],
    ids=["never read", "silent before the losses end", "states without counters", "another port of the host"],
)
def test_an_end_that_is_not_read_is_missing(host: list[Samples]) -> None:
    found = _degrading([*_lossy_leaf(), *host])
    assert (found.coverage, found.confidence) == (Coverage(1, 2, (HOST,)), ONE_END)


@pytest.mark.parametrize("boots_after", [50, 70], ids=["while the leaf loses frames", "later"])
def test_an_end_stays_covered_after_its_device_restarts(boots_after: int) -> None:
    """Its counters begin again; it was read before too."""
    before = [replace(one, boot_id=1) for one in _healthy_host(range(boots_after))]
    after = [
        replace(_reading(HOST, n - boots_after, 0), boot_id=2, sampled_at_ns=at(n * ROUND_S), sequence=n + 1,
                received_at_ns=at(n * ROUND_S))
        for n in range(boots_after, ROUNDS)
    ]  # fmt: skip
    found = _degrading([*_lossy_leaf(), *before, *after])
    assert (found.coverage, found.confidence) == (Coverage(2, 2), BOTH_ENDS)


def _sent(outputs: Iterable[Output]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the ports that sources do not read, as sent to attribute."""
    state, sent = ReadersByDevice(), [one.message for one in outputs if one.topic is SUMMARIES]
    for message in sent:
        if isinstance(message, PortReaders):
            state.add(message)
    return [(device, one.ports) for device, sources in state.devices.items() for one in sources]


def _ports_read(n: int, ports: Iterable[str], uncounted: Collection[str] = ()) -> Samples:
    counts: dict[str, float | None] = {port: None if port in uncounted else 1000 * n for port in ports}
    return samples("p1-l0", n * ROUND_S, {UP: dict.fromkeys(ports, 1), PACKETS: counts}, sequence=n + 1)


def test_unread_ports_are_sent_once_and_when_they_change() -> None:
    """A port that the inventory does not have is none of them; one whose counters end is from then on."""
    own = stage()
    sent: list[tuple[str, tuple[str, ...]]] = []
    for n in range(60):
        reading = _ports_read(n, ("d1", "d2", "u0", "u1", "u2", "other"), ("other", "d2")[: 1 + (n >= 30)])
        sent += _sent(own.process([reading]))
    assert sent == [("p1-l0", ("u3",)), ("p1-l0", ("u3", "d2"))]


@pytest.mark.parametrize("restored", [False, True])
def test_a_new_inventory_is_compared_at_once_and_sends_what_it_changes(*, restored: bool) -> None:
    """A link that is new to it is not read, though all others of its device are."""
    links, own = inventory().links, stage()
    fewer = topology(replace(inventory(), links=tuple(link for link in links if "u3" not in link)))
    own.set_topology(fewer)
    ports = ("d1", "d2", "u0", "u1", "u2")
    sent = [_sent(own.process([_ports_read(n, ports)])) for n in range(8)]
    assert [one for one in sent if one] == [[("p1-l0", ())]]
    if restored:
        data, own = own.snapshot(), begun(Measure(DetectParams()), fewer)
        own.restore(data)
    own.set_topology(topology())
    assert _sent(own.process([_ports_read(8, ports)])) == [("p1-l0", ("u3",))]


def test_a_port_that_the_inventory_does_not_have_is_not_read() -> None:
    """Only linked ports are sent, so an absent name proves nothing of others."""
    state = ReadersByDevice()
    state.add(PortReaders(0, ("p1-l0",), (GNMI,), (at(0),), (0,), (0,), ("u3",)))
    read = [state.is_read(topology(), Endpoint("p1-l0", port), at(1)) for port in ("d1", "u3", "d9")]
    assert read == [True, False, False]


def test_each_snapshot_has_what_came_after_the_one_before() -> None:
    """The encoded ports are reused only until the next message."""
    state, encoded = ReadersByDevice(), []
    for second, port in enumerate(("u1", "u2")):
        state.add(PortReaders(0, ("p1-l0",), (GNMI,), (at(second),), (0,), (0,), (port,)))
        encoded += [orjson.dumps(state.dump()), orjson.dumps(state.dump())]
    assert encoded[2:] == [orjson.dumps({"devices": state.devices})] * 2
    assert encoded[:2] != encoded[2:]
