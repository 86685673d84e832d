"""Decides whether a request over HTTP names this machine, because a web page can rebind its own name to loopback.

The page then reads what a browser on this machine may read. A browser sends the page's name as Host, and no address can
be rebound. It imports nothing of the pipeline, as status_http.py.
"""

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

HEADER_BYTES = 16 * 1024
"""The most bytes of a request's head; aiohttp's clients and browsers send less than 2 KiB."""


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port; empty if it has none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def is_rebound(local_address: str, host: str | None) -> bool:
    """Return whether a request that came to a loopback address names another machine; without Host it is no browser."""
    if host is None or not _is_loopback(local_address):
        return False
    name = host_name(host)
    own = socket.gethostname().lower()
    return name not in {"localhost", own, own.partition(".")[0]} and not _is_address(name)


def _is_loopback(address: str) -> bool:
    return _is_address(address) and ip_address(address).is_loopback


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
