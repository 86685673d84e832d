"""The neighbours that lldpd has heard: `ask` runs its own client once a minute at most, `neighbors` reads the answer.

lldpd's socket speaks the memory layout of its own version; `lldpcli -f json0` is what its authors keep stable, and it
is asked beside everything else, never by whoever reads counters.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import orjson

from streams.wire.errors import Reject
from streams.wire.models import Neighbor

_MOST_BYTES = 4 << 20
_MOST_NEIGHBORS = 1024


async def query(program: str, bound_s: float) -> bytes | None:
    """What it says; None where there is no such program, no lldpd, or no answer in time."""
    if not program:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            program, "-f", "json0", "show", "neighbors",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, ValueError):
        return None
    assert process.stdout is not None
    said = b""
    try:
        async with asyncio.timeout(bound_s):
            while len(said) <= _MOST_BYTES and (more := await process.stdout.read(1 << 16)):
                said += more
            if len(said) <= _MOST_BYTES and await process.wait() == 0:
                return said
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return None


def neighbors(data: bytes) -> tuple[Neighbor, ...]:
    """The neighbours by netdev; one without a name of itself or of its port is none. Raises Reject."""
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Reject(f"lldpd: {error}") from error
    found = []
    for whole in _all(said, "lldp"):
        for interface in _all(whole, "interface"):
            netdev = interface.get("name") if isinstance(interface, dict) else None
            device = _first(interface, "chassis", "name")
            port = _named_port(interface)
            if isinstance(netdev, str) and netdev and device and port:
                found.append(Neighbor(netdev, device, port))
    return tuple(sorted(set(found), key=lambda n: (n.port, n.remote_device, n.remote_port))[:_MOST_NEIGHBORS])


def _named_port(interface: Any) -> str:
    """The id where it is the port's name; where it is a MAC or a number, the description."""
    for port in _all(interface, "port"):
        for identity in _all(port, "id"):
            kind, value = (identity.get(key) if isinstance(identity, dict) else None for key in ("type", "value"))
            described = _first(port, "descr")
            if kind in {"mac", "local", "ip"} and described:
                return described
            return value if isinstance(value, str) else ""
    return ""


def _first(node: Any, *path: str) -> str:
    for name in path:
        node = next(_all(node, name), None)
    value = node.get("value") if isinstance(node, dict) else None
    return value if isinstance(value, str) else ""


def _all(node: Any, name: str) -> Iterator[Any]:
    """json0 has a list where json has what would be its only entry."""
    inside = node.get(name) if isinstance(node, dict) else None
    yield from inside if isinstance(inside, list) else () if inside is None else (inside,)
