"""Evaluates the health of a process once a second and reports it to systemd, if systemd started the process.

The protocol is one datagram of `NAME=value` lines to the socket in NOTIFY_SOCKET (sd_notify(3)). The libraries for it
are a wrapper of libsystemd that needs a compiler, and one of forty lines without a release since 2017.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from streams.health.health import Health

BEAT_S = 1.0
_STATUS_CHARACTERS = 200


def notify(*lines: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send these lines to systemd; return False where that was not possible, as while its socket is full."""
    if not (path := environ.get("NOTIFY_SOCKET")):
        return True
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.setblocking(False)
        out.sendto("\n".join(lines).encode(), address)
        return True
    return False


def stop_of(health: Health, environ: Mapping[str, str] = os.environ) -> None:
    """Report that the process stops: to be called before the work of stopping begins."""
    health.stopping()
    notify("STOPPING=1", "STATUS=stopping", environ=environ)


@asynccontextmanager
async def supervised(health: Health, environ: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """Evaluate and report the health within the context."""
    task = asyncio.create_task(_report(health, environ), name="health")
    try:
        yield
    finally:
        task.cancel()


async def _report(health: Health, environ: Mapping[str, str]) -> None:
    was_ready = False
    while True:
        health.beat()
        if not health.liveness_problem():
            problem = health.readiness_problem()
            lines = ["WATCHDOG=1", f"STATUS={problem[:_STATUS_CHARACTERS] or 'ready'}"]
            if not was_ready:
                # A process that waits for its brokers is not a failed start; one that is stuck sends nothing.
                limit_us = round(health.params.stuck_s * 1e6)
                lines.append(f"EXTEND_TIMEOUT_USEC={limit_us}" if problem else "READY=1")
            is_sent = notify(*lines, environ=environ)
            was_ready = was_ready or (is_sent and not problem)
        await asyncio.sleep(BEAT_S)
