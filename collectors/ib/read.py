"""Reads the inputs of the collector: answers of UFM Telemetry, and files of ibdiagnet that have changed. I/O only."""

import base64
import glob
import hashlib
import http.client
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from collectors.core.http_get import get
from streams.wire.errors import Retry

_TEXT = "text/plain, text/csv;q=0.9"


def fetch(
    url: str, login: Path | None, context: ssl.SSLContext | None, timeout_s: float, max_bytes: int,
    now_s: Callable[[], float],
) -> str:  # fmt: skip
    """Return the answer of a URL; raises Retry with what failed. Blocks, at most about twice `timeout_s`."""
    parts, headers = urlsplit(url), {} if login is None else {"Authorization": _authorization(login)}
    assert parts.hostname is not None, "checked by the settings"
    connection = (
        http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return get(connection, path, _TEXT, url, timeout_s, max_bytes, now_s, headers).decode(errors="replace")


def _authorization(login: Path) -> str:
    """Return the header of a file that has USER:PASSWORD, or `Basic TOKEN` or `Bearer TOKEN`; raises Retry."""
    try:
        text = login.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Retry(f"cannot read the login file {login}: {getattr(error, 'strerror', '') or 'no text'}") from error
    if text.startswith(("Basic ", "Bearer ")) and text.isascii() and text.isprintable():
        return text
    if ":" not in text or not text.isprintable():
        raise Retry(f"the login file {login} needs one line: USER:PASSWORD, Basic TOKEN or Bearer TOKEN")
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def digest(text: str) -> bytes:
    """Return a digest by which an answer equals the one before."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class ChangedFiles:
    """The files of one pattern that were written since they were read last, and no longer change."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._seen: dict[str, tuple[int, int]] = {}
        self._read: dict[str, tuple[int, int]] = {}

    def changed(self, *, at_once: bool = False) -> Iterator[tuple[str, int]]:
        """Yield the paths to read and the times at which they were written in ns; `at_once` skips the second look."""
        found: dict[str, tuple[int, int]] = {}
        for path in sorted(glob.glob(self._pattern)):  # noqa: PTH207 — patterns are absolute
            try:
                state = os.stat(path)  # noqa: PTH116 — beside glob
            except OSError:
                continue
            found[path] = state.st_size, state.st_mtime_ns
        ready = [
            one for one, own in found.items() if (at_once or self._seen.get(one) == own) and self._read.get(one) != own
        ]
        self._seen = found
        self._read = {path: own for path, own in self._read.items() if path in found}
        for path in ready:
            self._read[path] = found[path]
            yield path, found[path][1]


def read_text(path: str, max_bytes: int) -> str:
    """Return the text of a file; raises Retry. Blocks."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 — beside glob
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise Retry(f"{path}: {error.strerror or error}") from error
    if len(data) > max_bytes:
        raise Retry(f"{path}: more than {max_bytes >> 20} MiB")
    return data.decode(errors="replace")
