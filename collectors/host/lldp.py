"""Reads lldpd's neighbors: `query` runs its client, `neighbors` parses the output.

lldpd's socket protocol depends on its version; the output of `lldpcli -f json0` is stable. The query is separate from
all others and never part of reading counters.
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
    """Return the client's output; None if the program or lldpd is missing, or after the timeout."""
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
    result = b""
    try:
        async with asyncio.timeout(bound_s):
            while len(result) <= _MOST_BYTES and (more := await process.stdout.read(1 << 16)):
                result += more
            if len(result) <= _MOST_BYTES and await process.wait() == 0:
                return result
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return None


def neighbors(data: bytes) -> tuple[Neighbor, ...]:
    """Return the neighbors by netdev, without those that have no device or port name. Raises Reject."""
    try:
        result = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Reject(f"lldpd: {error}") from error
    found = []
    for whole in _all(result, "lldp"):
        for interface in _all(whole, "interface"):
            netdev = interface.get("name") if isinstance(interface, dict) else None
            device = _first(interface, "chassis", "name")
            port = _named_port(interface)
            if isinstance(netdev, str) and netdev and device and port:
                found.append(Neighbor(netdev, device, port))
    return tuple(sorted(set(found), key=lambda n: (n.port, n.remote_device, n.remote_port))[:_MOST_NEIGHBORS])


def _named_port(interface: Any) -> str:
    """Return the port id if it is a name; the description if the id is a MAC or a number."""
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
    """Return the entries; json0 always has a list, json only for several entries."""
    inside = node.get(name) if isinstance(node, dict) else None
    yield from inside if isinstance(inside, list) else () if inside is None else (inside,)
