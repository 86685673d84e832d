"""How often the interpreter looks for garbage where messages by the thousand come and go."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (5_000, 10, 100)
"""A batch is tens of thousands of objects without cycles, and what the stages know of a fabric's devices hundreds of
thousands that stay: by the interpreter's own thresholds the collector goes through them again and again. With rarer
looks at what is young a worker grew by 390 MiB a minute at the largest fabric. A look at all of it stops the worker
for 0.2 s there and finds nothing, but for the stages of partitions that went to another worker."""


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Until the end of this."""
    was = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*was)
