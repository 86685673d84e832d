"""Defines the errors of actions."""


class ActionError(Exception):
    """Raised if an action cannot be carried out; its text is the detail of the result."""


class Refused(ActionError):
    """Raised before anything is changed: another party's drain, a missing target, an expired approval."""


class DeviceError(ActionError):
    """Raised if a device or scheduler did not answer or did not apply a change; its state is read before continuing."""


class Misconfigured(Exception):
    """Raised if the automation cannot start; the text has one line, the exit status is 2."""
