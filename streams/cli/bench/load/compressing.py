"""How hard the load is compressed: lz4 at level 1, where aiokafka has level 9 and no way to say otherwise.

Level 9 costs the sender 4.4 CPU s a million port-samples and level 1 0.3, for 76 and 82 bytes a port-sample; readers
decode either for 0.13 (snappy 0.28, zstd 0.34), measured on this load's own batches. The generator must be cheap.
"""

import inspect

from aiokafka import codec

AIOKAFKAS_LEVEL = 9
LEVEL = 1


def lz4_at(level: int) -> None:
    """Let aiokafka compress with lz4 at this level from now on, in this process."""
    assert list(inspect.signature(codec.lz4_encode).parameters) == ["payload", "level"], "aiokafka's lz4 has changed"
    codec.lz4_encode.__defaults__ = (level,)
