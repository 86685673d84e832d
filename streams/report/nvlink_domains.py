"""Derives the NVLink domain of each host from the clique that its GPUs report. Pure.

A known inventory may name a domain as NMX does. Its names stay, and a new host of the same clique gets the same name.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from streams.wire.models import Facts

_DOMAIN = "nvlink-domain"


def nvlink_domains(
    found: Mapping[str, Iterable[Facts]], known: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the domain of each host that reports one, and the reason for doubt of each host with another or several.

    `found` has the facts of each host, `known` the domain of each host in the known inventory; both in one order.
    """
    reported = {host: _cliques(facts) for host, facts in found.items()}
    cliques = {host: names[0] for host, names in reported.items() if len(names) == 1}
    doubts = {host: f"its GPUs report several: {', '.join(n)}" for host, n in reported.items() if len(n) > 1}
    name_of: dict[str, str] = {}
    pairs = Counter((clique, known[host]) for host, clique in cliques.items() if known.get(host))
    for (clique, name), _ in pairs.most_common():  # a host that moved names no domain after its former one
        if clique not in name_of and name not in name_of.values():
            name_of[clique] = name
    domains = {host: name_of.get(clique, clique) for host, clique in cliques.items()}
    for host, name in domains.items():
        if (own := known.get(host)) and own != name:
            of_name = "" if name == cliques[host] else f" ({name})"
            doubts[host] = f"the known inventory has {own}, its GPUs report {cliques[host]}{of_name}"
    return domains, doubts


def _cliques(facts: Iterable[Facts]) -> list[str]:
    """Return the cliques of a host's GPUs; `N/A` is that of a GPU that is not registered."""
    names = {part.name.strip() for each in facts for part in each.components if part.kind == _DOMAIN}
    return sorted(name for name in names if name and name.upper() != "N/A")
