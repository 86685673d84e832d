"""A device pays for its values over time, and for JSON before it is parsed."""

from collectors.core.device_share import DeviceShare, json_elements
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.feed import cost
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from collectors.gnmi.values import MOST_ELEMENTS, typed_value

_LIMIT = 1000


def share() -> DeviceShare:
    return DeviceShare("leaf1", _LIMIT, CollectorMetrics())


def test_a_device_below_its_limit_never_waits() -> None:
    """A burst of a second's values at once is within it."""
    own = share()
    assert [own.delay_s(_LIMIT, at_s) for at_s in (0.0, 1.0, 2.0)] == [0, 0, 0]
    assert own.report(2.0) == ""


def test_a_device_waits_as_long_as_its_values_last() -> None:
    """Ten seconds' values at once take nine seconds more, and smaller ones meanwhile wait for the rest of them."""
    own = share()
    assert own.delay_s(10 * _LIMIT, 0.0) == 9
    assert own.delay_s(1, 5.0) == 4.001
    assert own.delay_s(1, 9.1) == 0
    assert "more than 1000 values a second" in own.report(9.1)
    assert own.report(100.0) == ""


def test_json_is_charged_by_its_elements_before_it_is_parsed() -> None:
    """9 MB of two bytes an item cost 18 seconds of the default limit, not less than one."""
    ones = b"[" + b"1," * 4_500_000 + b"1]"
    assert json_elements(ones) == 4_500_002
    assert cost(ones) == 4_500_002 and cost(b"x" * 6400) == 100


def test_json_of_more_elements_than_a_message_may_have_is_not_parsed() -> None:
    """The parser takes the event loop for 0.9 s for 4 MiB of nested lists."""
    for count, is_read in ((MOST_ELEMENTS // 5 - 1, True), (MOST_ELEMENTS, False)):
        value = gnmi_lite_pb2.TypedValue(json_ietf_val=b"[" + b"[[[[1]]]]," * count + b"1]")
        assert (typed_value(value) is not None) is is_read


def test_a_long_leaf_list_is_not_decoded() -> None:
    """Only a list with one item is a value, and each item takes microseconds."""
    items = [gnmi_pb2.TypedValue(uint_val=7)] * 5000
    for count, found in ((1, [7]), (5000, None)):
        data = gnmi_pb2.ScalarArray(element=items[:count]).SerializeToString()
        assert typed_value(gnmi_lite_pb2.TypedValue(leaflist_val=data)) == found
