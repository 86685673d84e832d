"""The gNMI messages are OpenConfig's on the wire: names of the calls, numbers of the fields."""

from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2

# github.com/openconfig/gnmi, proto/gnmi/gnmi.proto 0.10.0
NUMBERS = {
    "Notification": {"timestamp": 1, "prefix": 2, "update": 4, "delete": 5, "atomic": 6},
    "Update": {"path": 1, "val": 3, "duplicates": 4},
    "TypedValue": {
        "string_val": 1, "int_val": 2, "uint_val": 3, "bool_val": 4, "bytes_val": 5, "float_val": 6, "double_val": 14,
        "decimal_val": 7, "leaflist_val": 8, "json_val": 10, "json_ietf_val": 11, "ascii_val": 12, "proto_bytes": 13,
    },
    "Path": {"origin": 2, "elem": 3, "target": 4},
    "PathElem": {"name": 1, "key": 2},
    "SubscribeRequest": {"subscribe": 1, "poll": 3},
    "SubscribeResponse": {"update": 1, "sync_response": 3},
    "SubscriptionList": {
        "prefix": 1, "subscription": 2, "qos": 4, "mode": 5, "allow_aggregation": 6, "use_models": 7, "encoding": 8,
        "updates_only": 9,
    },
    "Subscription": {"path": 1, "mode": 2, "sample_interval": 3, "suppress_redundant": 4, "heartbeat_interval": 5},
    "CapabilityResponse": {"supported_models": 1, "supported_encodings": 2, "gNMI_version": 3},
    "GetRequest": {"prefix": 1, "path": 2, "type": 3, "encoding": 5, "use_models": 6},
    "GetResponse": {"notification": 1},
    "SetRequest": {"prefix": 1, "delete": 2, "replace": 3, "update": 4, "union_replace": 6},
    "SetResponse": {"prefix": 1, "response": 2, "timestamp": 4},
    "UpdateResult": {"path": 2, "op": 4},
}  # fmt: skip


def test_fields_have_openconfigs_numbers() -> None:
    """A wrong number would be read as nothing by every real device."""
    for name, numbers in NUMBERS.items():
        own = {field.name: field.number for field in gnmi_pb2.DESCRIPTOR.message_types_by_name[name].fields}
        assert own == numbers, name
    assert dict(gnmi_pb2.Encoding.items()) == {"JSON": 0, "BYTES": 1, "PROTO": 2, "ASCII": 3, "JSON_IETF": 4}
    assert dict(gnmi_pb2.SubscriptionMode.items()) == {"TARGET_DEFINED": 0, "ON_CHANGE": 1, "SAMPLE": 2}
    assert dict(gnmi_pb2.SubscriptionList.Mode.items()) == {"STREAM": 0, "ONCE": 1, "POLL": 2}


def test_the_calls_have_openconfigs_names() -> None:
    """A call is its full name on the wire."""
    service = gnmi_pb2.DESCRIPTOR.services_by_name["gNMI"]
    assert service.full_name == "gnmi.gNMI"
    assert {method.name for method in service.methods} == {"Capabilities", "Get", "Set", "Subscribe"}


def test_the_receiving_side_reads_the_same_bytes() -> None:
    """The message with its paths left as bytes is the same on the wire, and its path bytes are a Path."""
    sent = gnmi_pb2.SubscribeResponse()
    sent.update.timestamp = 5
    sent.update.prefix.elem.add(name="interfaces")
    update = sent.update.update.add()
    update.path.elem.add(name="interface", key={"name": "e1"})
    update.val.uint_val = 2**64 - 1
    sent.update.delete.add().elem.add(name="x")
    lite = gnmi_lite_pb2.SubscribeResponse.FromString(sent.SerializeToString())
    assert lite.update.timestamp == 5
    assert gnmi_pb2.Path.FromString(lite.update.update[0].path) == update.path
    assert lite.update.update[0].val.uint_val == 2**64 - 1
    assert gnmi_pb2.SubscribeResponse.FromString(lite.SerializeToString()) == sent
    for name in ("TypedValue", "Update", "Notification", "SubscribeResponse"):
        full = {f.name: f.number for f in gnmi_pb2.DESCRIPTOR.message_types_by_name[name].fields}
        own = {f.name: f.number for f in gnmi_lite_pb2.DESCRIPTOR.message_types_by_name[name].fields}
        assert own.items() <= full.items()
