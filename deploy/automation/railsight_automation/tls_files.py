"""Provides a TLS context of a client or server that reads its certificates again when their files change.

The next connection uses a certificate that is renewed on disk; existing connections stay open. While the new files are
inconsistent, for example during a renewal, the former ones are used. The system's CAs, used without a CA file, are read
once.
"""

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

log = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a client in PEM: the CA of the server (None: the system's CAs), its own certificate and key.

    For a server, `ca` is the CA of the clients, without which they need no certificate.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    of_server: bool = False

    def present(self) -> tuple[Path, ...]:
        """Return the files that are set."""
        return tuple(path for path in (self.ca, self.cert, self.key) if path is not None)


class FileContext(ssl.SSLContext):
    """The context of these files; raises OSError or ssl.SSLError if they are unusable at the start."""

    _files: TlsFiles
    _stamp: _Stamp
    _current: ssl.SSLContext

    def __new__(cls, files: TlsFiles) -> Self:
        """Return a context that verifies the server's certificate and name, or is of a server."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER if files.of_server else ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamp = _stamp_of(files)
        self._current = _load(files)

    @property
    def files(self) -> TlsFiles:
        """The files of this context."""
        return self._files

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection of asyncio or uvloop."""
        return self._newest().wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Begin a connection of a blocking client."""
        return self._newest().wrap_socket(*args, **options)

    def _newest(self) -> ssl.SSLContext:
        try:
            stamp = _stamp_of(self._files)
            if stamp != self._stamp:
                self._current = _load(self._files)
                self._stamp = stamp
                log.info("certificates read again files=%s", ",".join(map(str, self._files.present())))
        except (OSError, ssl.SSLError) as error:
            log.warning("certificates not usable, the former ones are used: %s", error)
        return self._current


def _stamp_of(files: TlsFiles) -> _Stamp:
    states = [path.stat() for path in files.present()]
    return tuple((state.st_mtime_ns, state.st_size, state.st_ino) for state in states)


def _load(files: TlsFiles) -> ssl.SSLContext:
    purpose = ssl.Purpose.CLIENT_AUTH if files.of_server else ssl.Purpose.SERVER_AUTH
    context = ssl.create_default_context(purpose, cafile=None if files.ca is None else str(files.ca))
    if files.of_server and files.ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    if files.cert is not None:
        context.load_cert_chain(files.cert, files.key)
    return context
