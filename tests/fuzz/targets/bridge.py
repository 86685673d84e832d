"""Records of gnmic and Telegraf in the bridge, and the metadata of its commits."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from collectors.bridge.delivery import MessageIdentity, committed_state
from collectors.bridge.fold import Gathered, Refused
from collectors.bridge.params import Format
from tests.fixtures.bridge_records import COUNTERS, START_NS, S, event, fold_of, take
from tests.fuzz.target import BrokenPromise, Target, framed, frames
from tests.fuzz.targets.wire import read_back

if TYPE_CHECKING:
    from collectors.bridge.fold import Output


def _parse(form: Format, data: bytes) -> None:
    """Fold the records of a partition; every message from them is one that Kafka's readers take.

    A record is refused once and counted, or read; the next one has the next offset either way.
    """
    fold = fold_of(form)
    identity = MessageIdentity("bridge", "gnmic", 0, 7)
    outputs: list[Output] = []
    for number, value in enumerate(frames(data), 1):
        counted = fold.devices.metrics.value("poisoned")
        made = take(fold, [value])
        refused = sum(isinstance(one, Refused) for one in made)
        if refused > 1 or bool(refused) != (fold.devices.metrics.value("poisoned") > counted):
            raise BrokenPromise(f"{refused} refusals of a record are not one that is counted")
        if fold.next_offset != number:
            raise BrokenPromise(f"{fold.next_offset} is the next offset after {number} records")
        outputs += made
    for output in (*outputs, *fold.cut()):
        record, rows = identity.record(output, 2 * START_NS)
        read_back(record)
        if isinstance(output, Gathered) and rows != len(output.reading.row):
            raise BrokenPromise(f"a message of {len(output.reading.row)} rows counts as {rows}")


def _gnmic_seeds() -> Iterator[bytes]:
    import orjson

    values = {f"{COUNTERS}/in-octets": 7, f"{COUNTERS}/in-errors": "3",
              "/interfaces/interface/state/oper-status": "UP"}  # fmt: skip
    records = [orjson.dumps([event(START_NS + n * 10 * S, values)]) for n in range(3)]
    yield framed(*records)
    yield framed(records[0], orjson.dumps({"name": "ports", "timestamp": START_NS, "deletes": ["/a"]}))
    update = {"Path": "state/counters/in-octets", "values": {"state/counters/in-octets": 7}}
    notification = {"source": "leaf1:57400", "timestamp": START_NS, "prefix": "interfaces/interface[name=Ethernet1]",
                    "updates": [update]}  # fmt: skip
    yield framed(orjson.dumps(notification), b'{"sync-response":true}')


def _telegraf_seeds() -> Iterator[bytes]:
    yield framed(
        b'{"metrics":[{"name":"snmp_if","tags":{"agent_host":"leaf1","ifName":"Ethernet1"},"fields":{"ifHCInOctets":7,'
        b'"ifOperStatus":1},"timestamp":1700000000}]}',
        b'{"name":"ethtool","tags":{"host":"host1","interface":"ens1np0"},"fields":{"rx_bytes_phy":7},'
        b'"timestamp":1700000010}',
    )


def _influx_seeds() -> Iterator[bytes]:
    yield framed(
        b"snmp_if,agent_host=leaf1,ifName=Ethernet1 ifHCInOctets=7i,ifOperStatus=1i 1700000000000000000",
        b'if,source=l,name=Et\\ 1,path=/interfaces/interface/state/counters in_octets=1i,text="a \\"b\\",c" \n'
        b"ethtool,host=host1,interface=ens1np0 rx_bytes_phy=7u,rx_prio3_pause=1e3,up=true 1700000000000000000\n",
    )


def _parse_commit(data: bytes) -> None:
    """Read the metadata; when it is written again, it is the same."""
    state = committed_state(data.decode("utf-8", "replace"))
    if state is not None and committed_state(state.text()) != state:
        raise BrokenPromise("the metadata of a commit changes when it is written again")


TARGETS = (
    Target("bridge-gnmic", partial(_parse, "gnmic"), (), _gnmic_seeds),
    Target("bridge-telegraf", partial(_parse, "telegraf-json"), (), _telegraf_seeds),
    Target("bridge-influx", partial(_parse, "telegraf-influx"), (), _influx_seeds),
    Target("bridge-auto", partial(_parse, "auto"), (), lambda: (*_gnmic_seeds(), *_telegraf_seeds(), *_influx_seeds())),
    Target("bridge-commit", _parse_commit, (), lambda: (b"railsight1 f1 7 10 20",)),
)
