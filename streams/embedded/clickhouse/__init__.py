"""Serves ClickHouse's HTTP interface on this machine with its engine as a library (chdb)."""

from streams.embedded.clickhouse.params import ClickHouseParams, Limits, User
from streams.embedded.clickhouse.process import EmbeddedClickHouse

__all__ = ["ClickHouseParams", "EmbeddedClickHouse", "Limits", "User"]
