"""Errors, named for what they mean to an action."""


class ActionError(Exception):
    """Raised if an action cannot be carried out; its text is the detail of the result."""


class Refused(ActionError):
    """Raised before anything is changed: another party's drain, a missing target, an expired approval."""


class DeviceError(ActionError):
    """Raised if a device or scheduler did not answer or did not do what was set: its state is read before going on."""


class Misconfigured(Exception):
    """Raised if the automation cannot start: one line, exit status 2."""
