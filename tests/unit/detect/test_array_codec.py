"""Arrays of a snapshot are no larger than their bytes allow."""

import numpy as np
import pytest

from streams.detect.measure.storage.array_codec import MAX_ARRAY_BYTES, ArrayDecoder, ArrayEncoder
from streams.wire.errors import Reject


def _encoded(*arrays: np.ndarray) -> ArrayDecoder:
    encoder = ArrayEncoder()
    for array in arrays:
        encoder.put(array)
    return ArrayDecoder(memoryview(blob) for blob in encoder.blobs)


def test_an_array_that_claims_more_than_its_bytes_hold_is_rejected() -> None:
    """Neither a constant nor a compressed array takes memory by its claim alone."""
    with pytest.raises(Reject, match="bytes in"):
        _encoded(np.arange(1000)).take("i8", 1 << 28)
    with pytest.raises(Reject, match="more than"):
        _encoded(np.zeros(10, np.int64)).take("i8", MAX_ARRAY_BYTES // 8 + 1)


def test_all_arrays_of_a_snapshot_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many constants, nine bytes each, do not add up to more than it."""
    monkeypatch.setattr("streams.detect.measure.storage.array_codec.MAX_ARRAY_BYTES", 1000)
    decoder = _encoded(*(np.zeros(100, np.int64) for _ in range(3)))
    assert len(decoder.take("i8", 100)) == 100
    with pytest.raises(Reject):
        decoder.take("i8", 100)
