"""Compares the identity that a device reports with the inventory, and merges the two into one row.

The inventory has the expected device, the report has the actual one. A different serial number means a replaced device;
fleet/version-drift evaluates a different model or firmware.
"""

from typing import NamedTuple, Protocol

from streams.fabric.inventory_rows import Device

_REPORTED_AS = {"vendor": "vendor", "model": "model", "serial": "serial", "firmware": "os_version"}
"""The reported field for each column of the inventory."""


class ReportedIdentity(Protocol):
    """The identity that a device reports; blank means not reported. Implemented by streams.wire.models.Facts."""

    @property
    def vendor(self) -> str:
        """The vendor."""

    @property
    def model(self) -> str:
        """The model, by the vendor's name."""

    @property
    def serial(self) -> str:
        """The serial number."""

    @property
    def os_version(self) -> str:
        """The version of the operating system or firmware."""


class Difference(NamedTuple):
    """A column of the inventory that differs from the report of the device."""

    column: str
    inventory: str
    device: str


def differences(device: Device, reported: ReportedIdentity) -> tuple[Difference, ...]:
    """Return the columns whose two values differ.

    Values are equal where one contains the other (`Arista`, `Arista Networks`); serials are compared whole.
    """
    pairs = (
        Difference(column, getattr(device, column), getattr(reported, name)) for column, name in _REPORTED_AS.items()
    )
    return tuple(each for each in pairs if each.inventory and each.device and not _is_same(each))


def is_replacement(device: Device, reported: ReportedIdentity) -> bool:
    """Return whether another device is in its place."""
    return any(each.column == "serial" for each in differences(device, reported))


def with_reported_fields(device: Device, reported: ReportedIdentity) -> Device:
    """Return the row with its blank columns filled from the report."""
    blank = {column: getattr(reported, name) for column, name in _REPORTED_AS.items() if not getattr(device, column)}
    return device._replace(**blank)


def _is_same(each: Difference) -> bool:
    one, other = each.inventory.strip().casefold(), each.device.strip().casefold()
    return one == other if each.column == "serial" else one in other or other in one
