"""Values and paths of devices, in all the forms in which they are sent."""

import pytest

from collectors.gnmi import paths, values
from collectors.gnmi.paths import Elem
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from streams.wire.errors import Reject


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (7, 7), ("7", 7), ("18446744073709551615", 2**64 - 1), (True, 1), ("36.5", 36.5), (b"\x40\x14\x7a\xe1", 2.32),
        ("NA", None), ("-inf", None), ("nan", None), (float("inf"), None), ("", None), (None, None), (b"abc", None),
    ],
)  # fmt: skip
def test_a_number_is_converted_from_any_type(value: values.Scalar, number: float | None) -> None:
    """Text and float32 bytes are numbers; other values are absent, never 0."""
    assert values.number(value) == (None if number is None else pytest.approx(number, rel=1e-6))


def test_typed_values_are_read_from_each_member_of_the_oneof() -> None:
    """Decimals and JSON are decoded; invalid JSON is absent."""
    decimal = gnmi_pb2.Decimal64(digits=-204, precision=1).SerializeToString()
    assert values.typed_value(gnmi_lite_pb2.TypedValue(decimal_val=decimal)) == -20.4
    assert values.typed_value(gnmi_lite_pb2.TypedValue(json_ietf_val=b'{"a":"1"}')) == {"a": "1"}
    assert values.typed_value(gnmi_lite_pb2.TypedValue(json_val=b"{")) is None
    assert values.typed_value(gnmi_lite_pb2.TypedValue(uint_val=0)) == 0
    assert values.typed_value(gnmi_lite_pb2.TypedValue()) is None


def test_states_speeds_and_times_are_read_with_and_without_modules() -> None:
    """UP, up and a module's UP are one; UNKNOWN is absent; times come in s, ms, µs or ns."""
    assert [values.oper_up(value) for value in ("UP", "down", "oc-if:UP", "LOWER_LAYER_DOWN", "UNKNOWN", 1)] == [
        1, 0, 1, 0, None, None,
    ]  # fmt: skip
    assert values.admin_up("TESTING") is None
    assert values.port_speed("openconfig-if-ethernet:SPEED_400GB") == 400e9
    assert values.port_speed("SPEED_2500MB") == 2.5e9
    assert values.port_speed("SPEED_UNKNOWN") is None
    moment = 1_700_000_000_000_000_000
    assert {values.unix_ns(moment // scale) for scale in (1, 10**3, 10**6, 10**9)} == {moment}
    assert values.unix_ns(0) is None


def test_paths_lose_their_modules_and_keep_their_keys() -> None:
    """A key's value may hold slashes and escaped brackets."""
    elems = paths.from_text(r"/oc-if:interfaces/oc-if:interface[name=Ethernet1/1]/state[a=x\]y]")
    assert elems == (
        Elem("interfaces"), Elem("interface", (("name", "Ethernet1/1"),)), Elem("state", (("a", "x]y"),)),
    )  # fmt: skip
    assert paths.from_text(paths.to_text(elems)) == elems
    assert paths.from_text("/") == ()
    with pytest.raises(Reject):
        paths.from_text("/a[b]/c")
