"""One parser as a target of the fuzzers, and the check of one input: its own error, within time and memory."""

import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
"""A folder for each target: inputs that reached new code, and every input that once broke the target's promise."""

MAX_CPU_S = 5.0
"""A parser takes milliseconds for MAX_INPUT_BYTES; coverage and a busy machine make it a hundred times slower."""
MAX_INPUT_BYTES = 1 << 14
_LENGTH_BYTES = 2


class BrokenPromise(AssertionError):
    """A target took too much time or memory for an input, or accepted what it cannot pass on."""


@dataclass(frozen=True)
class Target:
    """One parser: `parse` takes any bytes and returns, or raises one of `errors`."""

    name: str
    parse: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    """The errors that the caller of the parser handles."""
    seeds: Callable[[], Iterable[bytes]]
    """Valid inputs, from which the fuzzers begin."""
    max_growth_bytes: int = 64 << 20
    """Memory that one input may take."""

    def inputs(self) -> Iterator[bytes]:
        """Yield the seeds and the corpus."""
        yield from self.seeds()
        for path in corpus_files(self.name):
            yield path.read_bytes()


def corpus_files(name: str) -> list[Path]:
    """Return the files of a target in the repository's corpus."""
    return sorted((CORPUS / name).glob("*"))


class MemoryMeter:
    """The highest memory of this process since the last input, where the kernel can reset it."""

    def __init__(self) -> None:
        self._before = self._peak()

    def growth_bytes(self) -> int:
        """Return how far the memory rose above that before the input; the next input is measured from here."""
        peak, before = self._peak(), self._before
        if peak > before:
            with suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")
            self._before = self._peak()
        return peak - before

    @staticmethod
    def _peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check(target: Target, data: bytes, meter: MemoryMeter) -> bool:
    """Return whether the target accepts an input; raises its error if that is not one of `errors`, and BrokenPromise."""
    began_s = time.process_time()
    accepted = True
    try:
        target.parse(data)
    except target.errors:
        accepted = False
    took_s = time.process_time() - began_s
    if took_s > MAX_CPU_S:
        raise BrokenPromise(f"{target.name}: {took_s:.1f} s of CPU for {len(data)} bytes")
    if (growth := meter.growth_bytes()) > target.max_growth_bytes:
        raise BrokenPromise(f"{target.name}: {growth >> 20} MiB of memory for {len(data)} bytes")
    return accepted


def frames(data: bytes) -> Iterator[bytes]:
    """Split an input into several messages, each after its length in two bytes; the last may be cut."""
    at = 0
    while at + _LENGTH_BYTES <= len(data):
        size = int.from_bytes(data[at : at + _LENGTH_BYTES], "little")
        at += _LENGTH_BYTES
        yield data[at : at + size]
        at += size


def framed(*messages: bytes) -> bytes:
    """Return an input that `frames` splits into these messages."""
    return b"".join(len(one).to_bytes(_LENGTH_BYTES, "little") + one for one in messages)


def scratch_folder(prefix: str) -> Path:
    """Return a folder in memory where there is one, for parsers of files."""
    import atexit
    import shutil
    import tempfile

    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix=f"railsight-{prefix}-", dir=memory if os.access(memory, os.W_OK) else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
