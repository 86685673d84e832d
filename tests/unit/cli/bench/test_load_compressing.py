"""The level at which the load is compressed, held against the aiokafka that is installed."""

import inspect
from collections.abc import Iterator

import numpy as np
import pytest
from aiokafka import codec
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from streams.cli.bench.load.compressing import AIOKAFKAS_LEVEL, LEVEL, lz4_at

LZ4 = 3


@pytest.fixture
def aiokafkas_level() -> Iterator[int]:
    level: int = inspect.signature(codec.lz4_encode).parameters["level"].default
    yield level
    lz4_at(level)


def _batch(value: bytes) -> int:
    builder = DefaultRecordBatchBuilder(2, LZ4, 0, -1, -1, -1, 1 << 20)
    builder.append(0, timestamp=1, key=None, value=value, headers=[])
    return len(builder.build())


def test_batches_follow_the_level(aiokafkas_level: int) -> None:
    """A batch of aiokafka's is larger at level 1 than at its own 9, so the level does reach it."""
    assert aiokafkas_level == AIOKAFKAS_LEVEL
    values = np.random.default_rng(1).integers(0, 1 << 30, 20_000).astype("<u8").tobytes()
    own = _batch(values)
    lz4_at(LEVEL)
    assert _batch(values) > own
