"""Selects the event loop of a process and its threads: uvloop where it is installed, else asyncio's own.

A message, a fetch and a response each wake the loop: uvloop saves a tenth of reading gNMI (`railsight bench gnmi`).
"""

import asyncio
from collections.abc import Callable

try:
    import uvloop

    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:
    new_loop = asyncio.new_event_loop
