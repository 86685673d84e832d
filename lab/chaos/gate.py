"""A TCP relay in front of ClickHouse that can refuse, delay, or drop an answer after the request was carried out."""

import asyncio
import contextlib
from enum import Enum

_UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 40\r\nConnection: close\r\n\r\n"
    b"Code: 202. DB::Exception: Too many users"
)
_READ_BYTES = 1 << 16


class GateMode(Enum):
    """The treatment of connections."""

    OPEN = "open"
    REFUSING = "refusing"
    """Answers every request with an error of ClickHouse."""
    CUTTING = "cutting"
    """Passes requests on and closes the connection instead of passing the answer back."""


class Gate:
    """Relays connections to one port of loopback; `port` is the relay's own after `start`."""

    def __init__(self, target_port: int) -> None:
        self.mode = GateMode.OPEN
        self.port = 0
        self._target_port = target_port
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
        self.close_connections()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def close_connections(self) -> None:
        """Close the open connections, so that a new mode applies to all clients."""
        for task in self._connections:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._relay(reader, writer)
        except (OSError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass  # one side has closed the connection, or a fault has
        finally:
            self._connections.discard(task)
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode is GateMode.REFUSING:
            await reader.read(_READ_BYTES)
            writer.write(_UNAVAILABLE)
            await writer.drain()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        try:
            async with asyncio.TaskGroup() as tasks:
                request = tasks.create_task(_copy(reader, far_writer))
                with contextlib.suppress(OSError):
                    await self._answer(far_reader, writer)
                request.cancel()
        finally:
            far_writer.close()

    async def _answer(self, far_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass answers back until the server closes, or drop the first answer after the mode has changed."""
        while data := await far_reader.read(_READ_BYTES):
            if self.mode is not GateMode.OPEN:
                return
            writer.write(data)
            await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
