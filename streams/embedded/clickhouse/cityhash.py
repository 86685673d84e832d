"""CityHash128 of CityHash 1.0.2, the version that ClickHouse keeps for the checksums of its compressed blocks.

Written after the published algorithm (Pike and Alakuijala, 2011); later versions of CityHash give other values.
Some 10 MB/s: enough for `compress=1`, which clients use where they cannot do HTTP's own compression.
"""

import struct

_MASK = (1 << 64) - 1
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MUL = 0x9DDFEA08EB382D69
_fetch64 = struct.Struct("<Q").unpack_from
_fetch32 = struct.Struct("<I").unpack_from


def city_hash_128(data: bytes) -> bytes:
    """Return the hash of `data` as ClickHouse writes it: the low half first, both little-endian."""
    if len(data) >= 16:
        low, high = _seeded(data[16:], _at(data, 0) ^ _K3, _at(data, 8))
    elif len(data) >= 8:
        low, high = _seeded(b"", _at(data, 0) ^ (len(data) * _K0 & _MASK), _at(data, len(data) - 8) ^ _K1)
    else:
        low, high = _seeded(data, _K0, _K1)
    return struct.pack("<QQ", low, high)


def _at(data: bytes, offset: int) -> int:
    return int(_fetch64(data, offset)[0])


def _rotate(value: int, shift: int) -> int:
    return (value >> shift | value << (64 - shift)) & _MASK


def _mix(value: int) -> int:
    return value ^ (value >> 47)


def _hash16(low: int, high: int) -> int:
    a = _mix((low ^ high) * _MUL & _MASK)
    b = _mix((high ^ a) * _MUL & _MASK)
    return b * _MUL & _MASK


def _hash_short(data: bytes) -> int:
    size = len(data)
    if size > 8:
        a, b = _at(data, 0), _at(data, size - 8)
        return _hash16(a, _rotate((b + size) & _MASK, size)) ^ b
    if size >= 4:
        return _hash16(size + (_fetch32(data, 0)[0] << 3), _fetch32(data, size - 4)[0])
    if size > 0:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[-1] << 2)
        return _mix((y * _K2 ^ z * _K3) & _MASK) * _K2 & _MASK
    return _K2


def _murmur(data: bytes, a: int, b: int) -> tuple[int, int]:
    size = len(data)
    if size <= 16:
        a = _mix(a * _K1 & _MASK) * _K1 & _MASK
        c = (b * _K1 + _hash_short(data)) & _MASK
        d = _mix((a + (_at(data, 0) if size >= 8 else c)) & _MASK)
    else:
        c = _hash16((_at(data, size - 8) + _K1) & _MASK, a)
        d = _hash16((b + size) & _MASK, (c + _at(data, size - 16)) & _MASK)
        a = (a + d) & _MASK
        for offset in range(0, size - 16, 16):
            a = (a ^ _mix(_at(data, offset) * _K1 & _MASK) * _K1) * _K1 & _MASK
            b ^= a
            c = (c ^ _mix(_at(data, offset + 8) * _K1 & _MASK) * _K1) * _K1 & _MASK
            d ^= c
    a, b = _hash16(a, c), _hash16(d, b)
    return a ^ b, _hash16(b, a)


def _weak32(data: bytes, offset: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = struct.unpack_from("<QQQQ", data, offset)
    a = (a + w) & _MASK
    b = _rotate((b + a + z) & _MASK, 21)
    c = a
    a = (a + x + y) & _MASK
    b = (b + _rotate(a, 44)) & _MASK
    return (a + z) & _MASK, (b + c) & _MASK


def _seeded(data: bytes, low: int, high: int) -> tuple[int, int]:
    size = len(data)
    if size < 128:
        return _murmur(data, low, high)
    x, y, z = low, high, size * _K1 & _MASK
    v0 = (_rotate(y ^ _K1, 49) * _K1 + _at(data, 0)) & _MASK
    v1 = (_rotate(v0, 42) * _K1 + _at(data, 8)) & _MASK
    w0 = (_rotate((y + z) & _MASK, 35) * _K1 + x) & _MASK
    w1 = _rotate((x + _at(data, 88)) & _MASK, 53) * _K1 & _MASK
    whole = size & ~127
    for s in range(0, whole, 64):
        x = _rotate((x + y + v0 + _at(data, s + 16)) & _MASK, 37) * _K1 & _MASK
        y = _rotate((y + v1 + _at(data, s + 48)) & _MASK, 42) * _K1 & _MASK
        x ^= w1
        y ^= v0
        z = _rotate(z ^ w0, 33)
        v0, v1 = _weak32(data, s, v1 * _K1 & _MASK, (x + w0) & _MASK)
        w0, w1 = _weak32(data, s + 32, (z + w1) & _MASK, y)
        z, x = x, z
    y = (y + _rotate(w0, 37) * _K0 + z) & _MASK
    x = (x + _rotate((v0 + z) & _MASK, 49) * _K0) & _MASK
    for done in range(32, size - whole + 32, 32):
        s = size - done
        y = (_rotate((y - x) & _MASK, 42) * _K0 + v1) & _MASK
        w0 = (w0 + _at(data, s + 16)) & _MASK
        x = (_rotate(x, 49) * _K0 + w0) & _MASK
        w0 = (w0 + v0) & _MASK
        v0, v1 = _weak32(data, s, v0, v1)
    x, y = _hash16(x, v0), _hash16(y, w0)
    return (_hash16((x + v1) & _MASK, w1) + y) & _MASK, _hash16((x + w1) & _MASK, (y + v1) & _MASK)
