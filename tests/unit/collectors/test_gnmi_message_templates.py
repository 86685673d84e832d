"""Messages that are read by a template give the same values as decoded ones, number by number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.core.columns import Reading
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceIdentity
from collectors.gnmi.message_templates import integers
from collectors.gnmi.params import Params
from collectors.gnmi.parse import Connection
from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from lab.bench.gnmi_target import COUNTERS, notification

S = 1_000_000_000
T = 1_700_000_000 * S
NUMBERS = st.integers(0, 2**64 - 1) | st.integers(0, 300) | st.sampled_from([0, 127, 128, 2**63, 2**64 - 1])


def message(values: dict[str, int | str], at_ns: int, delete: bool = False) -> bytes:
    sent = gnmi_pb2.SubscribeResponse()
    sent.update.timestamp = at_ns
    sent.update.prefix.CopyFrom(to_message(from_text("/interfaces/interface[name=e1]/state/counters")))
    for name, value in values.items():
        update = sent.update.update.add(path=to_message(from_text(name)))
        if isinstance(value, int):
            update.val.uint_val = value
        else:
            update.val.string_val = value
    if delete:
        sent.update.delete.add().elem.add(name="in-octets")
    return sent.SerializeToString()


class Reader:
    """A connection; `knows` is True if it uses templates."""

    def __init__(self, *, knows: bool) -> None:
        self.connection = Connection("d", Params(), DeviceIdentity(), CollectorMetrics(), on_change=True)
        self.knows = knows
        self.known = 0

    def read(self, data: bytes, at_ns: int) -> list[object]:
        """Process a message, and return its outputs."""
        outputs = self.connection.process_known(data, at_ns) if self.knows else None
        self.known += outputs is not None
        if outputs is None:
            notification = gnmi_lite_pb2.SubscribeResponse.FromString(data).update
            outputs = self.connection.process(notification, at_ns, data if self.knows else b"")
        return [self.comparable(output) for output in outputs]

    def flushed(self, at_ns: int) -> object:
        return self.comparable(self.connection.flush(at_ns))

    @staticmethod
    def comparable(output: object) -> object:
        """Convert a reading to a comparable form."""
        if not isinstance(output, Reading):
            return output
        tables = [
            (t.metric, t.index, np.nan_to_num(t.values, nan=-1).tolist()) for t in (output.counters, output.gauges)
        ]
        return output.sampled_at_ns, output.received_at_ns, output.row, output.row_delay_us, tables


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from([*COUNTERS[:8], "nothing-of-ours", "more-of-it"]), NUMBERS | st.just("7"), min_size=3
        ),
        min_size=1, max_size=8,
    ),
    st.booleans(),
)  # fmt: skip
def test_templates_and_decoding_give_the_same_values(messages: list[dict[str, int | str]], delete: bool) -> None:
    """Any numbers, other leaves, other orders, text among them, a delete: value by value and time by time."""
    shaped, decoded = Reader(knows=True), Reader(knows=False)
    for number, values in enumerate([*messages, *messages]):
        at_ns = T + number * S
        data = message(values, at_ns, delete and number == len(messages))
        assert shaped.read(data, at_ns) == decoded.read(data, at_ns)
        if number % 3 == 2:
            assert shaped.flushed(at_ns + 100 * S) == decoded.flushed(at_ns + 100 * S)
    assert shaped.flushed(T + 10**4 * S) == decoded.flushed(T + 10**4 * S)


def test_a_switchs_repeated_messages_match_a_template_from_the_second_time_on() -> None:
    """One pattern is enough for all its ports; a message with a leaf less or more is decoded once."""
    reader = Reader(knows=True)
    for number in range(3):
        for port in range(4):
            reader.read(notification(port, T + number * 10 * S, number), T + number * 10 * S)
    assert reader.known == 8
    values: dict[str, int | str] = dict.fromkeys(COUNTERS[:6], 5)
    for _ in range(3):
        reader.read(message(values, T + 30 * S), T + 30 * S)
    assert reader.known == 10
    values.popitem()
    for _ in range(2):
        reader.read(message(values, T + 30 * S), T + 30 * S)
    assert reader.known == 11


def test_a_message_that_is_cut_or_changed_matches_no_template() -> None:
    """It is decoded, or refused there."""
    reader = Reader(knows=True)
    data = message(dict.fromkeys(COUNTERS[:6], 5), T)
    reader.read(data, T)
    assert reader.connection.process_known(data, T) is not None
    for wrong in (data[:-1], data + b"\x00", data[1:], b"", data.replace(b"in-octets", b"in-octetz")):
        assert reader.connection.process_known(wrong, T) is None


@pytest.mark.parametrize("numbers", [[0], [127, 128, 0, 300], [2**63, 2**64 - 1, 1]])
def test_varints_become_integers(numbers: list[int]) -> None:
    """As encoded by protobuf: seven bits per byte, the lowest first."""
    parts = []
    for number in numbers:
        typed = gnmi_pb2.TypedValue(uint_val=number).SerializeToString()
        parts.append(typed[1:])
    assert integers(parts).tolist() == numbers
