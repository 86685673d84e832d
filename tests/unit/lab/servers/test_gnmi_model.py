"""Tests of a simulated switch against the gNMI specification, in each encoding."""

import orjson
import pytest

from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_pb2
from lab.servers.gnmi_model import BGP_NEIGHBORS, GnmiModel, notifications
from lab.servers.gnmi_subscriptions import Refusal, RefusedRequest, Subscriptions
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.links import LinkDown, PathLoss

T = 1_700_000_000_000_000_000
S = 1_000_000_000
INVENTORY = demo_fabric.inventory(DemoShape(), T)
LINK = next(link for link in INVENTORY.links if link.role == "fabric-link")
MODEL = GnmiModel(DemoWorld(INVENTORY, [LinkDown(LINK, Interval(T + 5 * S, T + 9 * S))], 1, T), LINK.a_device)
PORT = LINK.a_port


def asked(
    *paths: str, mode: int = gnmi_pb2.SAMPLE, encoding: int = gnmi_pb2.PROTO, interval_ns: int = S,
    updates_only: bool = False, suppress: bool = False, heartbeat_ns: int = 0,
) -> Subscriptions:  # fmt: skip
    wanted = gnmi_pb2.SubscriptionList(encoding=gnmi_pb2.Encoding.ValueType(encoding), updates_only=updates_only)
    for path in paths:
        wanted.subscription.add(
            path=to_message(from_text(path)),
            mode=gnmi_pb2.SubscriptionMode.ValueType(mode),
            sample_interval=interval_ns,
            suppress_redundant=suppress,
            heartbeat_interval=heartbeat_ns,
        )
    return Subscriptions(MODEL, wanted)


def leaves(sent: list[gnmi_pb2.Notification]) -> dict[str, str]:
    """Return the sent values by port and last path element."""
    return {
        f"{n.prefix.elem[-1].key.get('name', '')} {u.path.elem[-1].name}": str(
            getattr(u.val, u.val.WhichOneof("value") or "")
        )
        for n in sent
        for u in n.update
    }


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("/interfaces/interface[name=*]/state/oper-status", 12),
        ("/interfaces/interface/state/oper-status", 12),
        ("/interfaces/*/state/oper-status", 12),
        ("/.../oper-status", 12),
        (f"/interfaces/interface[name={PORT}]/state/counters", 12),
        ("/system/state/hostname", 1),
        ("/interfaces/interface[name=nope]/state/oper-status", 0),
    ],
)
def test_wildcards_match_names_and_keys(path: str, count: int) -> None:
    """A missing key, `*` and `...` all match; a key that no port has matches nothing."""
    assert len(MODEL.matching_leaves(from_text(path))) == count


def test_a_sample_is_due_at_its_interval_and_missed_ones_are_skipped() -> None:
    """After a pause one sample is sent, not one for each missed interval."""
    subscriptions = asked("/interfaces/interface/state/counters")
    assert len(subscriptions.initial(T)) == 12
    assert subscriptions.due_ns() == T + S
    assert subscriptions.due(T + S - 1) == []
    assert len(subscriptions.due(T + 5 * S + 1)) == 12
    assert subscriptions.due_ns() == T + 6 * S


def test_a_change_is_sent_once_and_for_its_port_only() -> None:
    """ON_CHANGE sends changed values and nothing else."""
    subscriptions = asked("/interfaces/interface/state/oper-status", mode=gnmi_pb2.ON_CHANGE)
    assert len(subscriptions.initial(T)) == 12
    assert subscriptions.changed(T + S) == []
    (change,) = subscriptions.changed(T + 5 * S)
    assert change.timestamp == T + 5 * S
    assert leaves([change]) == {f"{PORT} oper-status": "DOWN"}
    assert subscriptions.changed(T + 6 * S) == []
    assert leaves(subscriptions.changed(T + 9 * S)) == {f"{PORT} oper-status": "UP"}


def test_heartbeats_updates_only_and_redundant_values() -> None:
    """A heartbeat repeats unchanged values; `updates_only` omits the initial ones; redundant samples are suppressed."""
    beats = asked("/interfaces/interface/state/oper-status", mode=gnmi_pb2.ON_CHANGE, heartbeat_ns=2 * S)
    beats.initial(T)
    assert len(beats.due(T + 2 * S)) == 12
    assert asked("/system/state/hostname", updates_only=True).initial(T) == []
    still = asked("/system/state/hostname", suppress=True)
    still.initial(T)
    assert still.due(T + S) == []


def test_target_defined_samples_counters_and_sends_changed_states() -> None:
    """Counters are sampled, states are sent when they change."""
    subscriptions = asked(f"/interfaces/interface[name={PORT}]", mode=gnmi_pb2.TARGET_DEFINED)
    subscriptions.initial(T)
    assert f"{PORT} oper-status" in leaves(subscriptions.changed(T + 5 * S))
    sampled = leaves(subscriptions.due(T + 6 * S))
    assert f"{PORT} in-octets" in sampled and f"{PORT} oper-status" not in sampled


@pytest.mark.parametrize(
    ("path", "mode", "encoding", "interval_ns", "code"),
    [
        ("/nonsense", gnmi_pb2.SAMPLE, gnmi_pb2.PROTO, S, Refusal.INVALID_ARGUMENT),
        ("/system", gnmi_pb2.SAMPLE, gnmi_pb2.ASCII, S, Refusal.UNIMPLEMENTED),
        ("/system", gnmi_pb2.SAMPLE, gnmi_pb2.PROTO, 1, Refusal.INVALID_ARGUMENT),
        ("/interfaces/interface/state", gnmi_pb2.ON_CHANGE, gnmi_pb2.PROTO, S, Refusal.INVALID_ARGUMENT),
    ],
)
def test_unsupported_requests_are_refused_with_their_code(
    path: str, mode: int, encoding: int, interval_ns: int, code: Refusal
) -> None:
    """A path outside the model, an encoding, an interval, ON_CHANGE of counters."""
    with pytest.raises(RefusedRequest) as refused:
        asked(path, mode=mode, encoding=encoding, interval_ns=interval_ns)
    assert refused.value.code is code


def test_json_ietf_quotes_big_numbers_and_names_modules() -> None:
    """RFC 7951 for JSON_IETF, plain values for JSON; a container is one value whose lists have their keys."""
    found = {}
    for encoding in (gnmi_pb2.JSON, gnmi_pb2.JSON_IETF):
        values = MODEL.values(MODEL.matching_leaves(from_text("/interfaces")), T)
        (sent, *_) = notifications(values, T, encoding, gnmi_pb2.Path(target="leaf", origin="openconfig"), blob_depth=1)
        assert (sent.prefix.target, sent.prefix.origin) == ("leaf", "openconfig")
        value = sent.update[0].val
        found[encoding] = orjson.loads(value.json_val or value.json_ietf_val)["interface"][0]
    assert isinstance(found[gnmi_pb2.JSON]["state"]["counters"]["in-octets"], int)
    assert isinstance(found[gnmi_pb2.JSON_IETF]["state"]["counters"]["in-octets"], str)
    assert found[gnmi_pb2.JSON]["ethernet"]["state"]["port-speed"] == "SPEED_400GB"
    assert found[gnmi_pb2.JSON_IETF]["ethernet"]["state"]["port-speed"] == "openconfig-if-ethernet:SPEED_400GB"
    assert found[gnmi_pb2.JSON]["name"] == "Ethernet1/1"


def test_the_sessions_of_a_link_that_drops_packets_are_down_while_it_is_up() -> None:
    """At both ends; those of a link that is down are down as well."""
    interval = Interval(T + 5 * S, T + 9 * S)
    for device, port in (LINK.a, LINK.z):
        model = GnmiModel(DemoWorld(INVENTORY, [PathLoss(LINK.z, interval, 1.0)], 1, T), device)
        bfd = model.matching_leaves(from_text(f"/bfd/interfaces/interface[id={port}]"))
        bgp = model.matching_leaves(from_text(f"{BGP_NEIGHBORS}/neighbor[neighbor-address={port}]/state"))
        oper = model.matching_leaves(from_text(f"/interfaces/interface[name={port}]/state/oper-status"))
        for at_ns, expected in ((T, ["UP", "ESTABLISHED", "UP"]), (interval.start_ns, ["DOWN", "ACTIVE", "UP"])):
            assert [value for _, value in model.values([*bfd, *bgp, *oper], at_ns)] == expected
    bfd = MODEL.matching_leaves(from_text(f"/bfd/interfaces/interface[id={PORT}]"))
    assert [value for _, value in MODEL.values(bfd, T + 6 * S)] == ["DOWN"]
