"""Refuses requests of web pages: an unknown Host (a page's name rebound to loopback) and a foreign Origin.

A browser sends a text/plain POST of any page without a preflight. It always sends Origin or Sec-Fetch-Site, and a page
cannot set Host.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from streams.embedded.clickhouse.errors import ClickHouseError

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_OWN_SITES = {"same-origin", "none"}


class OriginCheck:
    """Checks requests against the names under which clients may reach the server."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {*_LOOPBACK, *(name.lower().strip("[]") for name in names)}

    def refuse_foreign(self, headers: Mapping[str, str]) -> None:
        """Raise ClickHouseError for an unknown Host and for the Origin of another site.

        `headers` have names in lower case.
        """
        host = headers.get("host", "")
        if _name(host) not in self._names:
            raise ClickHouseError(
                497, "ACCESS_DENIED", f"Host {host[:100]!r} is not a name of this server; allow it with --host-name"
            )
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}".lower(), f"https://{host}".lower()}:
            raise ClickHouseError(497, "ACCESS_DENIED", f"Requests of the site {origin[:100]!r} are not allowed")
        if headers.get("sec-fetch-site", "none").lower() not in _OWN_SITES:
            raise ClickHouseError(497, "ACCESS_DENIED", "Requests of other sites are not allowed")


def _name(host: str) -> str:
    """Return the name in a Host header, without its port; empty if it has none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower().rstrip(".")
    except ValueError:
        return ""
