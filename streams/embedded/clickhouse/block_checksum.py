"""Computes the checksum of ClickHouse's compressed blocks: CityHash128 of CityHash 1.0.2.

Later versions of CityHash give other values, so this needs a library of exactly this version.
"""

from clickhouse_cityhash.cityhash import CityHash128

_HALF = (1 << 64) - 1


def city_hash_128(data: bytes) -> bytes:
    """Return the hash of `data` as ClickHouse writes it: two little-endian halves, the upper one first."""
    value: int = CityHash128(data)
    return (value >> 64).to_bytes(8, "little") + (value & _HALF).to_bytes(8, "little")
