"""Strings that a device supplies: descriptions are cut, names beyond their bound are refused."""

import pytest

from streams.wire.bounds import NAME_CHARACTERS
from streams.wire.codec import from_bytes, to_bytes
from streams.wire.errors import Reject
from streams.wire.models import Component, Facts, Source


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
