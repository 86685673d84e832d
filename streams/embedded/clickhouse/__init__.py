"""ClickHouse on this machine: its engine as a library (chdb) behind the HTTP interface of the server."""

from streams.embedded.clickhouse.params import ClickHouseParams, Limits, User
from streams.embedded.clickhouse.process import EmbeddedClickHouse

__all__ = ["ClickHouseParams", "EmbeddedClickHouse", "Limits", "User"]
