"""A burst for `attribute`, which has one owner for the whole fabric: leaves of the largest one restart.

Every link of some leaves goes down within ten seconds, as its far end reports.
"""

import random

from streams.fabric.topology import Topology
from streams.wire.models import Condition, Endpoint, Evidence, Finding, Severity, Status, Subject

_S = 1_000_000_000
_T0 = 1_000_000 * _S
_STEPS = 100


def episodes(top: Topology, count: int, rng: random.Random) -> list[Finding]:
    """Return findings of links that are down, one leaf after the other."""
    leaves = [device.name for device in top.devices.values() if device.tier == "T0"]
    found: list[Finding] = []
    for leaf in leaves:
        for link in top.links_of[leaf]:
            far = link.lower if link.upper.device == leaf else link.upper
            begin = _T0 + rng.randrange(10 * _S)
            subject = Subject(link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, pod=link.pod)
            evidence = Evidence("down", at=Endpoint(*far))
            found.append(
                Finding(
                    f"{len(found):032x}", 1, False, Condition.LINK_DOWN, Status.OPEN, Severity.WARNING, subject,
                    begin, begin, None, begin + 30 * _S, evidence=(evidence,), detector="link/down",
                )
            )  # fmt: skip
        if len(found) >= count:
            break
    rng.shuffle(found)
    return found[:count]
