"""What a device says it is, beside what the inventory says: where they differ, and the two as one row.

The inventory says what should be there, the device what is. A serial number that differs is another device in its
place; a model or a firmware that differs is for others to judge (fleet/version-drift).
"""

from typing import NamedTuple, Protocol

from streams.fabric.inventory_rows import Device

_REPORTED_AS = {"vendor": "vendor", "model": "model", "serial": "serial", "firmware": "os_version"}
"""The inventory's columns, and what a device calls the same."""


class ReportedIdentity(Protocol):
    """A device's own words; blank is not said. streams.wire.models.Facts is one."""

    @property
    def vendor(self) -> str:
        """Who made it."""

    @property
    def model(self) -> str:
        """As its maker calls it."""

    @property
    def serial(self) -> str:
        """Its serial number."""

    @property
    def os_version(self) -> str:
        """What runs on it."""


class Difference(NamedTuple):
    """A column of the inventory that the device contradicts."""

    column: str
    inventory: str
    device: str


def differences(device: Device, reported: ReportedIdentity) -> tuple[Difference, ...]:
    """Where both say something and neither contains the other: `Arista` is `Arista Networks`; a serial is whole."""
    pairs = (
        Difference(column, getattr(device, column), getattr(reported, name)) for column, name in _REPORTED_AS.items()
    )
    return tuple(each for each in pairs if each.inventory and each.device and not _is_same(each))


def is_replacement(device: Device, reported: ReportedIdentity) -> bool:
    """Whether another device stands in its place."""
    return any(each.column == "serial" for each in differences(device, reported))


def with_reported_fields(device: Device, reported: ReportedIdentity) -> Device:
    """The row with what only the device says; what the inventory says stays."""
    blank = {column: getattr(reported, name) for column, name in _REPORTED_AS.items() if not getattr(device, column)}
    return device._replace(**blank)


def _is_same(each: Difference) -> bool:
    one, other = each.inventory.strip().casefold(), each.device.strip().casefold()
    return one == other if each.column == "serial" else one in other or other in one
