"""Tests the allocator: pages that one thread freed are used by the next, without the kernel."""

import platform
import subprocess
import sys

import pytest

_TURNS = """
import resource
from concurrent.futures import ThreadPoolExecutor
from streams.instrument.memory import retain_malloc_pages
retain_malloc_pages()
threads = [ThreadPoolExecutor(1) for _ in range(6)]
def make():
    return sum(len(piece) for piece in [bytes(1 << 20) for _ in range(80)])
for turn in range(18):
    if turn == 6:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    threads[turn % 6].submit(make).result()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

_PAGES = 12 * 80 * 256
"""Page faults of the twelve counted turns, in pages of 4 KiB."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_threads_that_allocate_in_turn_use_existing_pages() -> None:
    """Six threads allocate and free blocks of 80 MiB in turn, and hardly any page is mapped again."""
    output = subprocess.run([sys.executable, "-c", _TURNS], capture_output=True, text=True, check=True, timeout=60)
    assert int(output.stdout) < _PAGES / 20
