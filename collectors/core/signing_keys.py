"""Holds the keys of a collector's MACs, and reads them again when their file changes."""

from pathlib import Path

import structlog

from streams.wire.errors import Misconfigured
from streams.wire.identity import MacSigner, read_keys

_log = structlog.get_logger("railsight.publisher")


class SigningKeys:
    """The keys of one file; raises Misconfigured if it cannot be read at the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed_ns = self._modified_ns()
        self.signer = MacSigner(read_keys(path))

    def reload(self) -> None:
        """Read a changed file; while it cannot be read, the former keys remain in use."""
        changed_ns = self._modified_ns()
        if changed_ns == self._changed_ns:
            return
        self._changed_ns = changed_ns
        try:
            self.signer = MacSigner(read_keys(self._path))
        except Misconfigured as error:
            _log.error("the former keys remain in use", why=str(error))

    def _modified_ns(self) -> int:
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return 0
