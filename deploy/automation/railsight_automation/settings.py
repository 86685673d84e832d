"""Declares a setting: one value of a device or scheduler that takes a link or host out of use."""

from typing import Any, Protocol

from railsight_automation.journal import Change

Value = Any
"""A JSON value."""


class Setting(Protocol):
    """One value that an action changes; `address` identifies it in the journal."""

    @property
    def address(self) -> str: ...

    async def read(self) -> Value:
        """Return the present value; raise DeviceError."""

    async def write(self, value: Value) -> None:
        """Set a value; raise DeviceError."""

    def out(self, present: Value, remediation_id: str) -> Value:
        """Return the value that takes the link or host out of use; raise Refused if another party did that."""

    def back(self, present: Value, change: Change) -> Value:
        """Return the value without this change: the present value if the change is not in effect."""

    def is_own(self, present: Value, change: Change) -> bool:
        """Return whether a value shows that this own change is in effect without a mark of another party."""

    def is_out(self, present: Value) -> bool:
        """Return whether a value takes the link or host out of use, regardless of who set it."""
