"""Decides which links of messages may be in an alert: only those below a configured URL.

Findings and remediations come from Kafka, where others may write; a person who was paged follows the links of the page.
"""

import re
from urllib.parse import SplitResult, urlsplit

from streams.notify.params import NotifyParams

_PLAIN = re.compile(r"[!-~]*")
_DEFAULT_PORT = {"http": 80, "https": 443}


def allowed_link(link: str, params: NotifyParams) -> str:
    """Return the link if it is below a configured URL, else an empty string."""
    prefixes = (*params.link_prefixes, params.dashboard_url, params.runbooks_url, params.finding_url.partition("{")[0])
    return link if any(_is_below(link, prefix) for prefix in prefixes if prefix) else ""


def _is_below(link: str, prefix: str) -> bool:
    """Return whether scheme, host and port are equal and the path is below the prefix's, segment by segment."""
    if not _PLAIN.fullmatch(link) or "\\" in link:
        return False
    try:
        target, base = urlsplit(link), urlsplit(prefix)
        if _origin(target) != _origin(base):
            return False
    except ValueError:  # a port or an IPv6 address that is none
        return False
    path = target.path.lower()
    if ".." in path or "%2e" in path or "%2f" in path or "%5c" in path:
        return False  # a server might resolve it to a path outside the prefix
    folder = base.path.rstrip("/")
    return target.path == folder or target.path.startswith(f"{folder}/")


def _origin(url: SplitResult) -> tuple[str, str, int | None]:
    """Return scheme, host and port; raises ValueError for credentials, another scheme or no host."""
    if url.scheme not in _DEFAULT_PORT or not url.hostname or "@" in url.netloc:
        raise ValueError(url.netloc)
    return url.scheme, url.hostname, url.port or _DEFAULT_PORT[url.scheme]
