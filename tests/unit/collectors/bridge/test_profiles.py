"""Every leaf of every gNMI profile through the bridge: gnmic and Telegraf give what the own collector reads."""

from collections.abc import Iterator

import orjson
import pytest

from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceIdentity
from collectors.gnmi.params import Params
from collectors.gnmi.parse import Connection
from collectors.gnmi.paths import Elems, from_text, to_message, to_text
from collectors.gnmi.profile import LeafMapping, profiles
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from streams.fabric.catalogue import BY_NAME, Metric
from tests.fakes import telegraf_formatter
from tests.fakes.gnmic_formatter import events
from tests.fixtures.bridge_records import START_NS, Rows, all_of, fold_of, merged, rows

Value = str | int | bool
LIGHT = "/components/component[name=Ethernet1]/transceiver/physical-channels/channel[index=0]/state/input-power"
"""A temperature belongs to a module only if the module reports light."""
_VALUES: dict[str, Value] = {
    "oper_up": "UP", "admin_up": "UP", "session_up": "UP", "port_speed": "SPEED_400GB", "flag": True,
    "stormed": "stormed",
}  # fmt: skip


def leaves() -> Iterator[tuple[str, str, LeafMapping]]:
    """Yield (profile, path, mapping) of each leaf that has a metric, with a value for each placeholder."""
    for name, profile in profiles().items():
        for section in profile.section:
            for below in section.below:
                for leaf, mapping in section.leaves.items():
                    whole = LeafMapping(metric=mapping) if isinstance(mapping, str) else mapping
                    if whole.metric:
                        text = f"{below}/{leaf}".replace("*", "Ethernet*").replace("{row}", "Ethernet1")
                        yield name, text.replace("{lane}", "3").replace("{other}", "o"), whole


LEAVES = list(leaves())


def sent(path: str, mapping: LeafMapping) -> dict[str, Value]:
    """Return what the device sends: the value, and light beside a value that counts only with it."""
    return {path: _VALUES.get(mapping.read or "", 7000)} | ({LIGHT: 5} if mapping.secondary else {})


def response(values: dict[str, Value]) -> gnmi_pb2.SubscribeResponse:
    found = gnmi_pb2.SubscribeResponse()
    found.update.timestamp = START_NS
    for path, value in values.items():
        update = found.update.update.add(path=to_message(from_text(path)))
        if isinstance(value, bool):
            update.val.bool_val = value
        elif isinstance(value, int):
            update.val.uint_val = value
        else:
            update.val.string_val = value
    return found


def own(values: dict[str, Value]) -> Rows:
    """Return the own collector's reading."""
    connection = Connection("leaf1", Params(), DeviceIdentity(), CollectorMetrics(), on_change=False)
    connection.process(
        gnmi_lite_pb2.SubscribeResponse.FromString(response(values).SerializeToString()).update, START_NS
    )
    reading = connection.flush(START_NS + 10**12)
    assert reading is not None
    return rows(reading)


def as_event(values: dict[str, Value]) -> list[bytes]:
    return [orjson.dumps(events(response(values), "leaf1:57400"))]


def as_json(values: dict[str, Value]) -> list[bytes]:
    def bare(elems: Elems) -> str:
        return "/".join(step.name for step in elems)

    updates = [
        {"Path": to_text(from_text(path))[1:], "values": {bare(from_text(path)): v}} for path, v in values.items()
    ]
    return [orjson.dumps({"source": "leaf1", "timestamp": START_NS, "updates": updates})]


def as_telegraf(values: dict[str, Value]) -> list[bytes]:
    lines = (telegraf_formatter.line(from_text(path), value, "leaf1", START_NS) for path, value in values.items())
    return ["\n".join(lines).encode()]


def test_the_profiles_have_every_metric_of_switches() -> None:
    """A guard of the table below: it is not empty."""
    assert len({mapping.metric for _, _, mapping in LEAVES}) >= 43


@pytest.mark.parametrize(
    ("path", "mapping"), [leaf[1:] for leaf in LEAVES], ids=[f"{p} {path}" for p, path, _ in LEAVES]
)
def test_a_leaf_of_a_profile_is_read_as_the_own_collector_reads_it(path: str, mapping: LeafMapping) -> None:
    """Its port, its metric, its lane and its value, in gnmic's formats `event` and `json` and in Telegraf's."""
    values = sent(path, mapping)
    expected = own(values)
    assert BY_NAME[mapping.metric] in {metric for metric, _ in expected["Ethernet1"]}
    for form in (as_event, as_json, as_telegraf):
        assert merged(all_of(fold_of(), form(values))) == expected, form.__name__


@pytest.mark.parametrize(
    ("tags", "metric"), [("name=e1", (Metric.PAUSE_RX_FRAMES, -1)), ("name=e1,priority=4", (Metric.PFC_RX_FRAMES, 4))]
)
def test_of_two_leaves_with_one_name_the_keys_among_the_tags_decide(tags: str, metric: tuple[Metric, int]) -> None:
    """Telegraf's trimmed name is that of the port's counter, and of the counter of each priority."""
    line = f"p,{tags},path=/interfaces/interface/ethernet,source=leaf1 in_mac_pause_frames=5i {START_NS}"
    assert merged(all_of(fold_of(), [line])) == {"e1": {metric: 5}}


def test_an_entry_that_is_not_collected_hides_no_other() -> None:
    """A queue without a number, and a multicast queue of the watchdog, in series with the same names of tags."""
    queue = "q,interface_id=e1,name={},path=/qos/interfaces/interface/output/queues/queue/state,source=leaf1"
    path = "/interfaces/interface/ethernet/pfc/watchdog/tx-queues/tx-queue/state"
    watchdog = f"w,index=3,name=e1,path={path},queue_type={{}},source=leaf1"
    lines = [f"{queue.format(name)} dropped_pkts=5i {START_NS}" for name in ("BE", "UC3")]
    lines += [f"{watchdog.format(kind)} stuck_count=2i {START_NS}" for kind in ("MULTICAST", "UNICAST")]
    assert merged(all_of(fold_of(), lines)) == {
        "e1": {(Metric.QUEUE_DROPPED_PACKETS, 3): 5, (Metric.PFC_WATCHDOG_STORMS, 3): 2}
    }


def test_a_temperature_without_light_is_no_modules() -> None:
    """A chassis has temperatures too."""
    line = f"t,name=Inlet1,path=/components/component/state/temperature,source=leaf1 instant=35 {START_NS}"
    assert all_of(fold_of(), [line]) == []
