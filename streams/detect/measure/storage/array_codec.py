"""Encodes columns of numbers compactly and quickly: a constant column as one number, others shuffled and compressed.

Shuffling places all first bytes together, then all second ones: the high bytes of growing counters are equal. Measured
on 786,432 ports (20 counters, 4 gauges; 151 MB): shuffled lz4 takes 0.10 s for 28 MB, plain lz4 0.11 s for 41 MB,
shuffled zstd at level 1 0.14 s for 24 MB.
"""

from collections.abc import Callable, Iterable
from typing import Any

import cramjam
import numpy as np
import numpy.typing as npt

from streams.wire.errors import Reject

Numbers = npt.NDArray[Any]
_WORD = 8
MAX_ARRAY_BYTES = 4 << 30
"""The limit of a snapshot's arrays: 24 metrics of 786,432 ports in one partition, with windows, are below 1 GB."""

_MAX_RATIO = 256
"""lz4 decompresses each byte to at most 255."""

_CONSTANT, _SHUFFLED = b"c", b"s"


class ArrayEncoder:
    """Encodes arrays of 8-byte numbers one after the other into `blobs`."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []

    def put(self, numbers: Numbers) -> None:
        """Append an array; its shape and type are not written."""
        words = np.ascontiguousarray(numbers).view("u8").reshape(-1)
        if len(words) and bool((words == words[0]).all()):
            self.blobs.append(_CONSTANT + words[:1].tobytes())
            return
        shuffled: Any = np.ascontiguousarray(words.view("u1").reshape(-1, _WORD).T)
        self.blobs.append(_SHUFFLED + bytes(cramjam.lz4.compress_block(shuffled, store_size=False)))

    def put_all(self, values: Iterable[int], kind: str = "i8") -> None:
        """Append plain numbers."""
        self.put(np.fromiter(values, kind))

    def exchange(self, array: Numbers, where: Any, base: Any = None) -> None:
        """Append the cells of an array at some indices, as differences to `base` if it is given."""
        cells = array[where] if base is None else array[where] - base
        self.put(cells if cells.itemsize == _WORD else _padded(cells.reshape(-1)))

    def exchange_below(self, array: Numbers, where: Any, reference: Numbers) -> None:
        """Append how far cells are below a reference, as integers, which are exact for gauges too."""
        self.put(_words(reference) - _words(array[where]))

    def exchange_sparse(self, array: Numbers, where: Any, empty: int) -> None:
        """Append the cells that are not empty."""
        cells = array[where].reshape(-1)
        places = np.flatnonzero(cells != empty)
        for numbers in (np.array([len(places)]), places, cells[places].astype(np.int64)):
            self.put(numbers)

    def exchange_bytes(self, data: Callable[[], bytes]) -> bytes:
        """Append bytes of any length, and return them."""
        made = data()
        self.put(np.array([len(made)]))
        self.put(_padded(np.frombuffer(made, "u1")))
        return made


class ArrayDecoder:
    """Decodes the arrays of an ArrayEncoder in order."""

    def __init__(self, blobs: Iterable[memoryview]) -> None:
        self._blobs = iter(blobs)
        self._left = MAX_ARRAY_BYTES

    def take(self, kind: str, *shape: int) -> Numbers:
        """Return the next array; raises Reject if it does not have this shape."""
        blob = next(self._blobs, memoryview(b""))
        count = int(np.prod(shape, dtype=object))
        self._left -= count * _WORD
        if self._left < 0:
            raise Reject(f"arrays of more than {MAX_ARRAY_BYTES} bytes")
        if bytes(blob[:1]) == _CONSTANT and len(blob) == 1 + _WORD:
            return np.full(shape, np.frombuffer(blob[1:], kind)[0])
        if bytes(blob[:1]) != _SHUFFLED:
            raise Reject("an array is missing")
        if count * _WORD > _MAX_RATIO * len(blob):
            raise Reject(f"an array of {count * _WORD} bytes in {len(blob)}")
        data = bytes(cramjam.lz4.decompress_block(blob[1:], output_len=count * _WORD)) if count else b""
        if len(data) != count * _WORD:
            raise Reject(f"an array of {len(data)} bytes where {count * _WORD} belong")
        words = np.ascontiguousarray(np.frombuffer(data, "u1").reshape(_WORD, -1).T)
        return words.view(kind).reshape(shape)

    def exchange(self, array: Numbers, where: Any, base: Any = None) -> None:
        """Fill the cells that `ArrayEncoder.exchange` appended."""
        shape, kind = array[where].shape, array.dtype.str
        if array.itemsize == _WORD:
            cells = self.take(kind, *shape)
        else:
            count = int(np.prod(shape))
            words = self.take("u8", -(-count * array.itemsize // _WORD))
            cells = words.view(kind)[:count].reshape(shape)
        array[where] = cells if base is None else cells + base

    def exchange_below(self, array: Numbers, where: Any, reference: Numbers) -> None:
        """Fill the cells that `ArrayEncoder.exchange_below` appended."""
        array[where] = (_words(reference) - self.take("u8", *reference.shape)).view(array.dtype)

    def exchange_sparse(self, array: Numbers, where: Any, empty: int) -> None:
        """Fill the cells that `ArrayEncoder.exchange_sparse` appended; the others are empty."""
        count = int(self.take("i8", 1)[0])
        cells = np.full(array[where].shape, empty, array.dtype)
        places = self.take("i8", count)
        cells.reshape(-1)[places] = self.take("i8", count)
        array[where] = cells

    def exchange_bytes(self, data: Callable[[], bytes]) -> bytes:
        """Return the bytes that `ArrayEncoder.exchange_bytes` appended; `data` is not called."""
        size = int(self.take("i8", 1)[0])
        return self.take("u8", -(-size // _WORD)).tobytes()[:size]


ArrayCodec = ArrayEncoder | ArrayDecoder
"""Writes or fills arrays, by the same calls in the same order."""


def _words(values: Numbers) -> Any:
    return np.ascontiguousarray(values).view("u8")


def _padded(values: Numbers) -> Numbers:
    """Pad numbers of less than eight bytes to words."""
    return np.concatenate([values, np.zeros(-values.nbytes % _WORD // values.itemsize, values.dtype)]).view("u8")
