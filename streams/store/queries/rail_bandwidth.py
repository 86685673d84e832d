"""Queries what the host links of a job delivered of their nominal bandwidth, by rail.

Draws no conclusions from the rows. Raises Retry while ClickHouse is unavailable.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from streams.fabric.intervals import Interval
from streams.store.query_client import QueryClient

_BY_MINUTE_NS = 86_400 * 10**9
"""Up to this length the rollups by minute are read, beyond it those by hour (choice)."""
_RAILS = (
    "SELECT rail, ports, nominal_bps, delivered_ratio, slowest_device, slowest_ratio FROM rail_bandwidth_{size}"
    "(job = {{job:String}}, since = {{since:DateTime('UTC')}}, until = {{until:DateTime('UTC')}})"
    " WHERE rail IS NOT NULL AND delivered_ratio IS NOT NULL AND slowest_ratio IS NOT NULL"
)


class RailBandwidth(NamedTuple):
    """One rail of a job: the mean of its ports over the time, in the direction that carried more."""

    rail: int
    ports: int
    nominal_bps: float
    delivered_ratio: float
    """Of the nominal bandwidth."""
    slowest_host: str
    slowest_ratio: float


def rail_bandwidth(client: QueryClient, job: str, window: Interval) -> list[RailBandwidth]:
    """Return the rails of a job with readings in a window, by number; those without a nominal speed are left out."""
    size = "1m" if window[1] - window[0] <= _BY_MINUTE_NS else "1h"
    since, until = (str(datetime.fromtimestamp(at_ns // 10**9, UTC).replace(tzinfo=None)) for at_ns in window)
    rows = client.query(_RAILS.format(size=size), {"job": job, "since": since, "until": until})
    return sorted(RailBandwidth(*row) for row in rows)
