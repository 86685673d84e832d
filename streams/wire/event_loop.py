"""Which event loop a process and its threads run on: uvloop where it is installed, else asyncio's own.

A message, a fetch and an answer each wake the loop: of reading gNMI uvloop saves a tenth (`railsight bench gnmi`).
"""

import asyncio
from collections.abc import Callable

try:
    import uvloop

    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:
    new_loop = asyncio.new_event_loop
