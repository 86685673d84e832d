"""Names under which a scheduler may have a host: with another case, and without the domain.

`nodes` has the hosts whose nodes differ by more; the jobs collector has the same table and the same rule.
"""


def names_of(host: str) -> tuple[str, ...]:
    """Return the possible names of a host's node, the most exact first, without duplicates."""
    short = host.partition(".")[0]
    return tuple(dict.fromkeys(name for name in (host, host.lower(), short, short.lower()) if name))
