"""Provides a pipe into which the engine writes a result in the client's format.

`SELECT … INTO OUTFILE '/dev/fd/N'` makes the engine write one document of any format, block by block, while
it computes. chdb's own results in pieces are separate documents, such as one JSON per block.
The kernel's limit of a pipe blocks the engine while a client reads slowly.
"""

import asyncio
import contextlib
import fcntl
import os

_PIPE_BYTES = 1 << 20  # the most that Linux gives without privilege


class ResultPipe:
    """One pipe. The engine opens `path`; reading ends after `no_more` was called and all data was read."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self.path = f"/dev/fd/{self._writer}"

    def no_more(self) -> None:
        """Close our writing end; the engine closes its own when its query ends."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def close(self) -> None:
        """Close both ends."""
        self.no_more()
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1

    async def read(self) -> bytes:
        """Return the next bytes (empty at the end); a cancelled call may be repeated."""
        while True:
            try:
                return os.read(self._reader, _PIPE_BYTES)
            except BlockingIOError:
                await self._readable()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._reader, _settle, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._reader)


def _settle(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
