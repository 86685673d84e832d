"""Tests the Set requests of a simulated switch: what each changes, and the refusals with their path."""

from typing import Any

import orjson
import pytest

from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_pb2
from lab.servers.gnmi_model import GnmiModel
from lab.servers.gnmi_set import Changes, changes_of
from lab.servers.gnmi_subscriptions import Refusal, RefusedRequest
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.port_configuration import DRAIN_POLICY, Setting

T = 1_700_000_000_000_000_000
INVENTORY = demo_fabric.inventory(DemoShape(pods=1, hosts=1), T)
LINK = next(link for link in INVENTORY.links if link.role == "fabric-link")
PORT = LINK.a_port
INTERFACE = f"/interfaces/interface[name={PORT}]"
NEIGHBOR = (
    "/network-instances/network-instance[name=default]/protocols/protocol[identifier=BGP][name=BGP]/bgp/neighbors/"
    f"neighbor[neighbor-address={PORT}]"
)
EXPORT = f"{NEIGHBOR}/apply-policy/config/export-policy"
IMPORT = f"{NEIGHBOR}/apply-policy/config/import-policy"


def model() -> GnmiModel:
    return GnmiModel(DemoWorld(INVENTORY, [], 1, T), LINK.a_device)


def typed(value: object) -> gnmi_pb2.TypedValue:
    return gnmi_pb2.TypedValue(json_ietf_val=orjson.dumps(value))


def request(**operations: Any) -> gnmi_pb2.SetRequest:
    """Return a request with `delete` as a list of paths, `replace` and `update` as values by path."""
    made = gnmi_pb2.SetRequest()
    for path in operations.get("delete", ()):
        made.delete.append(to_message(from_text(path)))
    for name in ("replace", "update"):
        for path, value in operations.get(name, {}).items():
            encoded = value if isinstance(value, gnmi_pb2.TypedValue) else typed(value)
            getattr(made, name).add(path=to_message(from_text(path)), val=encoded)
    return made


def changes(**operations: Any) -> Changes:
    return changes_of(model(), request(**operations), T)


def test_a_port_is_disabled_by_its_leaf_or_by_its_container() -> None:
    """A leaf takes each encoding; a container takes JSON."""
    disabled = {(PORT, Setting.ENABLED): False}
    assert changes(update={f"{INTERFACE}/config/enabled": False}) == disabled
    assert changes(replace={f"{INTERFACE}/config/enabled": gnmi_pb2.TypedValue(bool_val=False)}) == disabled
    assert changes(update={f"{INTERFACE}/config": {"enabled": False}}) == disabled
    assert changes(update={f"{INTERFACE}": {"openconfig-interfaces:config": {"enabled": False}}}) == disabled


def test_a_replace_sets_a_leaf_list_and_an_update_adds_to_it() -> None:
    """The initial policy remains after an update and not after a replace."""
    assert changes(replace={EXPORT: [DRAIN_POLICY]}) == {(PORT, Setting.EXPORT_POLICY): (DRAIN_POLICY,)}
    assert changes(update={EXPORT: [DRAIN_POLICY]}) == {(PORT, Setting.EXPORT_POLICY): ("FABRIC-OUT", DRAIN_POLICY)}
    value = gnmi_pb2.TypedValue()
    value.leaflist_val.element.add(string_val=DRAIN_POLICY)
    assert changes(replace={IMPORT: value}) == {(PORT, Setting.IMPORT_POLICY): (DRAIN_POLICY,)}


def test_deletes_precede_replaces_and_updates() -> None:
    """A request that deletes and sets a leaf sets it; a deleted leaf has its default."""
    assert changes(delete=[EXPORT]) == {(PORT, Setting.EXPORT_POLICY): ()}
    assert changes(delete=[f"{INTERFACE}/config/enabled"]) == {(PORT, Setting.ENABLED): True}
    assert changes(delete=[EXPORT], update={EXPORT: [DRAIN_POLICY]}) == {(PORT, Setting.EXPORT_POLICY): (DRAIN_POLICY,)}
    assert len(changes(delete=["/interfaces/interface[name=*]/config/enabled"])) == len(model().ports)


def test_a_replaced_container_has_the_default_of_each_leaf_that_is_left_out() -> None:
    """Replacing the policies of a neighbor by one removes the other."""
    assert changes(replace={f"{NEIGHBOR}/apply-policy/config": {"import-policy": [DRAIN_POLICY]}}) == {
        (PORT, Setting.IMPORT_POLICY): (DRAIN_POLICY,), (PORT, Setting.EXPORT_POLICY): (),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ({"update": {"/interfaces/nothing": 1}}, "INVALID_ARGUMENT", "/interfaces/nothing: no such path"),
        (
            {"update": {"/interfaces/interface[name=nope]/config/enabled": True}}, "NOT_FOUND",
            f"/interfaces/interface[name=nope]/config/enabled: no such instance on {LINK.a_device}",
        ),
        (
            {"update": {f"{INTERFACE}/state/oper-status": "UP"}}, "INVALID_ARGUMENT",
            f"{INTERFACE}/state/oper-status: cannot be set",
        ),
        (
            {"update": {f"{INTERFACE}/config/enabled": "no"}}, "INVALID_ARGUMENT",
            f"{INTERFACE}/config/enabled: 'no' is not a boolean",
        ),
        (
            {"update": {f"{INTERFACE}/config/enabled": gnmi_pb2.TypedValue(int_val=1)}}, "INVALID_ARGUMENT",
            f"{INTERFACE}/config/enabled: int_val is not supported",
        ),
        (
            {"update": {f"{INTERFACE}/config/enabled": gnmi_pb2.TypedValue(json_val=b"{")}}, "INVALID_ARGUMENT",
            f"{INTERFACE}/config/enabled: invalid JSON",
        ),
        ({"replace": {EXPORT: ["NOPE"]}}, "INVALID_ARGUMENT", f"{EXPORT}: policy NOPE is not defined"),
        ({"replace": {EXPORT: "FABRIC-OUT"}}, "INVALID_ARGUMENT", f"{EXPORT}: 'FABRIC-OUT' is not a list"),
        (
            {"update": {"/interfaces/interface[name=*]/config/enabled": False}}, "INVALID_ARGUMENT",
            "/interfaces/interface[name=*]/config/enabled: a wildcard can only be deleted",
        ),
        ({"update": {f"{INTERFACE}/config": False}}, "INVALID_ARGUMENT", f"{INTERFACE}/config: not a leaf"),
    ],
)  # fmt: skip
def test_a_refusal_has_a_status_and_a_readable_path(operations: dict[str, Any], code: str, message: str) -> None:
    """Nothing is changed by a request with one wrong part."""
    if "replace" not in operations:
        operations = operations | {"replace": {EXPORT: [DRAIN_POLICY]}}
    with pytest.raises(RefusedRequest) as refused:
        changes(**operations)
    assert refused.value.code is Refusal[code]
    assert str(refused.value).startswith(message)


def test_union_replace_and_another_origin_are_refused() -> None:
    """OpenConfig paths only, and none of the newer operations."""
    union = gnmi_pb2.SetRequest()
    union.union_replace.add(path=to_message(from_text(EXPORT)), val=typed([]))
    with pytest.raises(RefusedRequest, match="union_replace is not supported"):
        changes_of(model(), union, T)
    other = gnmi_pb2.SetRequest(delete=[to_message(from_text(EXPORT), origin="cli")])
    with pytest.raises(RefusedRequest, match="origin cli is not served"):
        changes_of(model(), other, T)
