"""Ten thousand invalid notifications: no crash, no delay, and refused ones are counted."""

import random
import time
from typing import TYPE_CHECKING

import numpy as np
import orjson
from google.protobuf.message import DecodeError

from collectors.core.columns import Reading
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceIdentity, facts_of
from collectors.gnmi.params import Params
from collectors.gnmi.parse import Connection
from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from lab.constants import with_constants
from streams.fabric.catalogue import Metric
from streams.wire.models import Samples, Source
from streams.wire.topics import SAMPLES, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

T = 1_700_000_000_000_000_000
MANY = 10_000
LONGEST_S = 1.0
"""For one message, on a shared machine; large blobs take some tens of milliseconds."""
Chance = random.Random
PATHS = (
    "/interfaces/interface[name=e1]/state/counters/in-octets", "/interfaces/interface[name=e2]/state/oper-status",
    "/interfaces/interface/state/counters/out-octets", "/interfaces/interface/state/counters/name", "/system/state",
    "/interfaces/interface[name=e1]/ethernet/state/port-speed", "/interfaces", "/", "/system/state/boot-time",
    "/components/component[name=x1]/transceiver/physical-channels/channel[index=3]/state/input-power/instant",
    "/components/component[name=x1]/state/temperature/instant", "/interfaces/interface[name=e1]/state/transceiver",
    "/qos/interfaces/interface[interface-id=e1]/output/queues/queue[name=q3]/state/dropped-pkts",
    "/COUNTERS/Ethernet*", "/COUNTERS/Ethernet*/Queues/Ethernet0:3/SAI_QUEUE_STAT_PACKETS", "/PORT_TABLE",
    "/lldp/interfaces/interface[name=e1]/neighbors/neighbor[id=1]/state/system-name",
)  # fmt: skip


def word(rng: Chance) -> str:
    known = ("NA", "-inf", "1e999", "9" * 5000, "UP", "", "18446744073709551616", "Qk+AAA==", "0x10", "{", "[1", "nan")
    return rng.choice(known) if rng.random() < 0.8 else "".join(map(chr, rng.choices(range(1, 0x500), k=9)))


def json_of(rng: Chance, depth: int = 0) -> object:
    """Return any JSON, with known names among its members."""
    names = ("interface", "name", "state", "counters", "in-octets", "oc-if:oper-status", "index", "Ethernet0:1", "x")
    match rng.randrange(7 if depth < 5 else 4):
        case 0:
            return word(rng)
        case 1:
            return rng.choice((0, -1, 2**63, 1.5, 1e308, True, None))
        case 2:
            return [word(rng)]
        case 3:
            return {}
        case 4:
            return [json_of(rng, depth + 1) for _ in range(rng.randrange(4))]
        case _:
            return {rng.choice(names): json_of(rng, depth + 1) for _ in range(rng.randrange(1, 5))}


def deep(rng: Chance) -> bytes:
    """Return JSON nested as deeply as the parser accepts, of objects, lists or both."""
    levels = rng.choice((40, 500, 1000, 5000))
    opening, closing = rng.choice(((b'{"state":', b"}"), (b"[", b"]"), (b'{"interface":[', b"]}")))
    return opening * levels + b"1" + closing * levels


def set_value(value: gnmi_pb2.TypedValue, rng: Chance) -> None:
    """Set a value of any kind."""
    kinds: tuple[Callable[[], object], ...] = (
        lambda: setattr(value, "uint_val", rng.choice((0, 1, 2**64 - 1))),
        lambda: setattr(value, "int_val", rng.choice((-1, -(2**63), 7))),
        lambda: setattr(value, "string_val", word(rng)),
        lambda: setattr(value, "ascii_val", word(rng)),
        lambda: setattr(value, "bool_val", True),
        lambda: setattr(value, "float_val", rng.choice((float("nan"), float("inf"), 3.5))),
        lambda: setattr(value, "double_val", rng.choice((1e308, float("-inf"), 0.0))),
        lambda: setattr(value, "bytes_val", rng.randbytes(rng.choice((0, 3, 4, 5)))),
        lambda: value.decimal_val.MergeFrom(gnmi_pb2.Decimal64(digits=2**62, precision=rng.choice((0, 2**32 - 1)))),
        lambda: value.leaflist_val.element.add(string_val=word(rng)),
        lambda: setattr(value, "json_val", orjson.dumps(json_of(rng))),
        lambda: setattr(value, "json_ietf_val", rng.choice((deep(rng), b"{", b"\xff", b"null", b'"NA"'))),
        lambda: setattr(value, "proto_bytes", b"x"),
        lambda: None,
    )
    rng.choice(kinds)()


def message(rng: Chance) -> bytes:
    """Return a message of any paths and values, a third of them with changed bytes."""
    sent = gnmi_pb2.SubscribeResponse()
    notification = sent.update
    notification.timestamp = rng.choice((0, -1, 2**63 - 1, T, T + rng.randrange(10**12)))
    if rng.random() < 0.3:
        notification.prefix.CopyFrom(to_message(from_text(rng.choice(PATHS)), origin="x:y", target="t"))
    for _ in range(rng.randrange(5)):
        update = notification.update.add()
        if rng.random() < 0.95:
            update.path.CopyFrom(to_message(from_text(rng.choice(PATHS))))
        if rng.random() < 0.1:
            update.path.elem.add(name=word(rng)[:300], key={word(rng)[:300]: word(rng)[:300]})
        set_value(update.val, rng)
    for _ in range(rng.randrange(3)):
        notification.delete.append(to_message(from_text(rng.choice(PATHS))))
    data = bytearray(sent.SerializeToString())
    if data and rng.random() < 0.35:
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def checked(reading: Reading) -> None:
    """Check that a reading can be encoded, and has no impossible values."""
    samples = Samples(
        "leaf1", Source.SOURCE_GNMI, "c", 1, 1, max(1, reading.sampled_at_ns), reading.received_at_ns, 0, 1,  # type: ignore[arg-type]
        reading.row, reading.rows_digest, reading.counters, reading.gauges, reading.row_delay_us,
    )  # fmt: skip
    record = encode(SAMPLES, samples)
    again = decode(SAMPLES, record.value, record.headers)
    assert isinstance(again, Samples)
    assert not np.isinf(again.gauges.values).any()


def test_any_message_of_a_device_is_processed_or_refused_and_counted() -> None:
    """No message ends or delays the reader, its memory stays bounded, and a valid counter is still read."""
    rng = random.Random(7)
    metrics, memory = CollectorMetrics(), DeviceIdentity()
    params = with_constants(Params, max_ports=64, max_paths=1000)()
    connection = Connection("leaf1", params, memory, metrics, on_change=True)
    refused = readings = 0
    longest_s = 0.0
    for number in range(MANY):
        data, now_ns = message(rng), T + number * 10**9
        began_s = time.thread_time()
        outputs = connection.process_known(data, now_ns)
        if outputs is None:
            try:
                response = gnmi_lite_pb2.SubscribeResponse.FromString(data)
            except DecodeError:
                refused += 1
                continue
            outputs = connection.process(response.update, now_ns, data)
        flushed = connection.flush(now_ns + 10**12)
        longest_s = max(longest_s, time.thread_time() - began_s)
        for reading in [*outputs, flushed]:
            if isinstance(reading, Reading):
                readings += 1
                checked(reading)
    facts_of("leaf1", T, Source.SOURCE_GNMI, memory)
    assert longest_s < LONGEST_S
    assert refused > 100 and readings > 500
    assert (
        metrics.value("unreadable") > 1000 and metrics.value("unnamed") > 100 and metrics.value("out_of_bounds") > 100
    )
    true = gnmi_pb2.Notification(timestamp=T)
    update = true.update.add(path=to_message(from_text("/interfaces/interface[name=e1]/state/counters/in-octets")))
    update.val.uint_val = 42
    connection.process(gnmi_lite_pb2.Notification.FromString(true.SerializeToString()), T + MANY * 10**9)
    last = connection.flush(T + (MANY + 10**4) * 10**9)
    assert last is not None
    column, row = last.counters.metric.index(Metric.RX_BYTES), last.row.index("e1")
    assert last.counters.values[column, row] == 42
    assert len(last.row) <= params.max_ports
