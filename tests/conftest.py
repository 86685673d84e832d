"""Configures all tests: properties use a bounded number of examples, and Ctrl-C stops the run."""

import os
import signal

from hypothesis import settings

settings.register_profile("here", max_examples=40, deadline=None)
settings.register_profile("checked", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("checked" if os.environ.get("CI") else "here")

# A shell's background job ignores SIGINT, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
