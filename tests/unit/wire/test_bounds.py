"""Bounds of fields: descriptions are cut, names beyond their bound are refused, integers fit their type."""

import pytest

from streams.wire.bounds import NAME_CHARACTERS
from streams.wire.codec import from_bytes, to_bytes
from streams.wire.errors import Reject
from streams.wire.models import Component, Event, EventKind, Facts, Source


def facts(*, device: str = "leaf1", model: str = "", part_number: str = "") -> Facts:
    components = (Component("Eth1", part_number=part_number),)
    return Facts(device, 1, Source.SOURCE_GNMI, model=model, components=components)


def test_a_long_description_is_cut_and_the_rest_is_valid() -> None:
    """One bad module must not hide the other facts of a device."""
    long = "9" * (NAME_CHARACTERS + 1)
    found = from_bytes(Facts, to_bytes(facts(model=long, part_number=long + "\x1b[31m")))
    assert found == facts(model=long[:-1], part_number=long[:-1])


def test_a_long_name_is_refused() -> None:
    """A device with another name would be another device."""
    with pytest.raises(Reject, match="device has 257 characters, more than 256"):
        from_bytes(Facts, to_bytes(facts(device="d" * (NAME_CHARACTERS + 1))))


@pytest.mark.parametrize("code", [-(2**63), 1_795_424_775_127_727_284, 2**63 - 1])
def test_the_code_of_an_event_is_any_integer_of_64_bits(code: int) -> None:
    """A reboot has its boot id there, a time in nanoseconds."""
    event = Event("leaf1", "", EventKind.DEVICE_REBOOT, 1, 1, Source.SOURCE_GNMI, "c", 1, 1, "boot-time", code)
    assert from_bytes(Event, to_bytes(event)) == event
