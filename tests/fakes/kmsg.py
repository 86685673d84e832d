"""A kernel's ring of records, read as `/dev/kmsg` is: one per call, EAGAIN at the end, EPIPE if records were lost."""

import errno


class FakeKmsg:
    """Retains the newest `keeps` records; each reader has a position of its own."""

    def __init__(self, keeps: int = 1000) -> None:
        self._keeps = keeps
        self.records: dict[int, bytes] = {}
        self._next = 0
        self._at = 0
        self.is_closed = False

    def write(self, since_boot_us: int, message: str, priority: int = 6) -> None:
        """Write a record."""
        self.put(f"{priority},{self._next},{since_boot_us},-;{message}\n".encode())

    def put(self, data: bytes) -> None:
        """Write any bytes as a record."""
        self.records[self._next] = data
        self._next += 1
        self.records.pop(self._next - self._keeps - 1, None)

    def rewind(self) -> None:
        """Open the ring again, as a new process does: reading begins at the oldest record."""
        self._at = min(self.records, default=self._next)
        self.is_closed = False

    def record(self) -> bytes:
        if self._at >= self._next:
            raise BlockingIOError(errno.EAGAIN, "nothing to read")
        if self._at not in self.records:
            self._at = min(self.records)
            raise BrokenPipeError(errno.EPIPE, "overwritten")
        self._at += 1
        return self.records[self._at - 1]

    def close(self) -> None:
        self.is_closed = True
