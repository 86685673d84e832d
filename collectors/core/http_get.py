"""Reads one answer of HTTP within limits of bytes and time. I/O only."""

import http.client
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from streams.wire.errors import Retry


def get(
    connection: http.client.HTTPConnection, path: str, accept: str, where: str, timeout_s: float, max_bytes: int,
    now_s: Callable[[], float] = time.monotonic, headers: Mapping[str, str] = MappingProxyType({}),
) -> bytes:  # fmt: skip
    """Return the body of a successful answer, and close the connection.

    Raises Retry, which names `where`. Blocks, at most about twice `timeout_s`, which is also the connection's timeout.
    """
    end_s = now_s() + timeout_s
    try:
        connection.request("GET", path, headers={"Accept": accept, "Accept-Encoding": "identity", **headers})
        response = connection.getresponse()
        data = bytearray()
        while len(data) <= max_bytes and (part := response.read1(1 << 20)):
            data += part
            if now_s() > end_s:  # a server that sends a byte a second never times out
                raise Retry(f"{where}: the answer is not complete after {timeout_s:g} s")
    except (OSError, http.client.HTTPException) as error:
        raise Retry(f"{where}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise Retry(f"{where}: {response.status} {response.reason}")
    if len(data) > max_bytes:
        raise Retry(f"{where}: the answer has more than {max_bytes >> 20} MiB")
    return bytes(data)
