"""Ten thousand spoilt records: no crash, no stall, every refusal counted."""

import random
import time

import orjson
import pytest

from collectors.bridge.delivery import MessageIdentity
from collectors.bridge.fold import Gathered, Refused
from collectors.bridge.params import Format
from streams.wire.models import Rejected, Samples
from streams.wire.topics import decode
from tests.fixtures.bridge_records import COUNTERS, START_NS, S, event, fold_of, take

RECORDS = 10_000
BOUND_S = 1.0
"""For a record that takes well below a millisecond: a stall, not a busy machine."""

WORDS = ['"', "\\", ",", " ", "=", "{", "}", "[", "]", "\n", "\0", "NaN", "1e999", "9" * 400, "-1", "null", "true",
         "\\\\\\", "é", "\ud7ff", "i", "u", "0x10", ":", "/", "source", "interface_name",
         '"values":', '"fields":7']  # fmt: skip


def gnmic(rng: random.Random) -> bytes:
    values = {f"{COUNTERS}/in-octets": rng.choice([1, "2", 3.0, "NA", True, None, [1], {"a": {"b": 2}}, -1, 2**63])}
    made = event(START_NS + rng.randrange(100) * S, values, f"leaf{rng.randrange(4)}", f"Eth{rng.randrange(4)}")
    made[rng.choice(["name", "timestamp", "tags", "values", "x"])] = rng.choice(
        [made["tags"], made["values"], 7, "x", None, [], {}, {"source": 7}, {"source": "l", "interface_name": ["e"]}]
    )
    return orjson.dumps([made] * rng.randrange(3))


def influx(rng: random.Random) -> bytes:
    names = rng.sample(["in_octets", "oper_status", "link", "rx_bytes_phy", "ifHCInOctets"], 3)
    ports = ",".join(f"{name}={rng.choice(['1i', '2u', '3', 'true', chr(34) + 'UP' + chr(34)])}" for name in names)
    tags = rng.choice(["source=l,name=e,path=/interfaces/interface/state/counters", "host=h,interface=e,driver=d",
                          "agent_host=a,ifName=e", "host=h"])  # fmt: skip
    return f"interfaces,{tags} {ports} {START_NS + rng.randrange(100) * S}\n".encode()


def spoilt(value: bytes, rng: random.Random) -> bytes:
    """Cut, doubled, changed at places, or with words put in."""
    match rng.randrange(6):
        case 0:
            return value[: rng.randrange(len(value) + 1)]
        case 1:
            changed = bytearray(value)
            for _ in range(rng.randrange(1, 6)):
                if changed:
                    changed[rng.randrange(len(changed))] = rng.randrange(256)
            return bytes(changed)
        case 2:
            at = rng.randrange(len(value) + 1)
            return value[:at] + rng.choice(WORDS).encode() * rng.choice([1, 1, 3, 50]) + value[at:]
        case 3:
            return rng.randbytes(rng.randrange(200))
        case 4:
            return value + value
        case _:
            return value


@pytest.mark.parametrize("form", ["auto", "gnmic", "telegraf-json", "telegraf-influx"])
def test_whatever_comes_the_stream_goes_on(form: Format) -> None:
    """Each record is read, or refused by name and counted; what is made of them is what our consumers can read."""
    rng = random.Random(f"20261121 {form}")
    fold, stamp = fold_of(form), MessageIdentity("test", "peers", 0, 1)
    poisoned = refused = gathered = 0
    for _ in range(RECORDS):
        value = spoilt(rng.choice([gnmic, influx])(rng), rng)
        before = fold.devices.metrics.value("poisoned")
        began = time.perf_counter()
        result = take(fold, [value])
        assert time.perf_counter() - began < BOUND_S
        found = [one for one in result if isinstance(one, Refused)]
        assert len(found) <= 1
        assert bool(found) is (fold.devices.metrics.value("poisoned") > before), value
        for one in result:
            record, rows = stamp.record(one, START_NS)
            message = decode(record.topic, record.value, record.headers)
            assert isinstance(message, Rejected) or not isinstance(one, Refused)
            if isinstance(one, Gathered):
                assert isinstance(message, Samples) and len(message.row) == rows > 0
                gathered += 1
        refused += len(found)
        poisoned += fold.devices.metrics.value("poisoned") - before
    assert fold.next_offset == RECORDS
    assert refused > RECORDS / 20
    assert poisoned >= refused
    assert gathered > 0 or form == "telegraf-json"


def test_a_wide_and_a_deep_record_cost_what_they_weigh() -> None:
    """Hundreds of kilobytes of brackets, of quotes, of fields or of lines is through in bounded time."""
    for value in (b"[" * 2 * 10**5, b'{"a":' * 10**5, b'x y="' + b'\\"' * 10**5, b"a=" * 10**5,
                  b"x " + b"f=1," * 10**5 + b"g=1 1700000000", b"x f=1\n" * 10**5, b"\\" * 2 * 10**5,
                  b"x,t=" + b"\\ " * 10**5 + b" f=1", b'x f="' + b"\n" * 2 * 10**5, b'x f="a\n' * 10**4):  # fmt: skip
        began = time.perf_counter()
        take(fold_of(), [value])
        assert time.perf_counter() - began < 5 * BOUND_S, value[:20]
