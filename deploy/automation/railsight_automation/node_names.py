"""Names under which a scheduler may have a host: with another case, and without the domain.

`nodes` has the hosts whose nodes differ by more; the jobs collector has the same table and the same rule.
"""

import re
from collections.abc import Mapping

from railsight_automation.errors import Refused
from railsight_automation.messages import Remediation

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def plain_name(host: str, nodes: Mapping[str, str]) -> str:
    """Return the configured node of a host, or the host; raise Refused unless it is the plain name of one node.

    Slurm expands `ALL` and `gpu[001-999]`, and splits arguments at blanks and commas.
    """
    node = nodes.get(host, host)
    if not _PLAIN.fullmatch(node) or node.upper() == "ALL":
        raise Refused(f"{node!r} is not the plain name of one node")
    return node


def target_node(remediation: Remediation, nodes: Mapping[str, str]) -> str:
    """Return the node of the target's host; raise Refused."""
    if remediation.a is None:
        raise Refused(f"{remediation.target_id} has no device")
    return plain_name(remediation.a.device, nodes)


def names_of(host: str) -> tuple[str, ...]:
    """Return the possible names of a host's node, the most exact first, without duplicates."""
    short = host.partition(".")[0]
    return tuple(dict.fromkeys(name for name in (host, host.lower(), short, short.lower()) if name))
