"""Configures all tests: the part that each belongs to, a bounded number of examples of properties, and Ctrl-C."""

import os
import signal

import pytest
from hypothesis import settings

from tests.selection import is_long

settings.register_profile("here", max_examples=40, deadline=None)
settings.register_profile("checked", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("checked" if os.environ.get("CI") else "here")

# A shell's background job ignores SIGINT, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the long part."""
    for item in items:
        if is_long(item.nodeid):
            item.add_marker(pytest.mark.long)
