"""One answer of HTTP: whole and in time, or an error that names the place."""

import http.client
import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from collectors.core.http_get import get
from streams.wire.errors import Retry


@contextmanager
def server(*parts: bytes) -> Iterator[int]:
    """Answer one request with these parts; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(20)
                peer.recv(1 << 16)
                for part in parts:
                    peer.sendall(part)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(20)
        assert not thread.is_alive()


def read(port: int, step_s: float = 0.0) -> bytes:
    """Return the body, with a limit of 1 MiB and 20 s, by a clock that advances by `step_s` at each look."""
    clock = itertools.count(0.0, step_s)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    return get(connection, "/jobs", "text/plain", "here", 20, 1 << 20, lambda: next(clock))


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


def test_an_answer_is_returned_whole() -> None:
    """It comes in parts."""
    with server(OK, b"one ", b"two") as port:
        assert read(port) == b"one two"


@pytest.mark.parametrize(
    ("parts", "step_s", "error"),
    [
        ((b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",), 0, "here: 503 Busy"),
        ((OK, bytes((1 << 20) + 1)), 0, "here: the answer has more than 1 MiB"),
        ((OK, b"a"), 21, "here: the answer is not complete after 20 s"),
        ((b"no HTTP\r\n\r\n",), 0, "here: no HTTP"),
        ((), 0, "here: "),
    ],
    ids=["an error", "too long", "too slow", "another protocol", "no answer"],
)
def test_any_other_answer_is_an_error_that_names_the_place(parts: tuple[bytes, ...], step_s: float, error: str) -> None:
    """The caller reads again later."""
    with server(*parts) as port, pytest.raises(Retry, match=error):
        read(port, step_s)
