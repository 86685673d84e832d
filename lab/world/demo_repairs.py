"""Plans the bad links of a demo of remediation: repeat offenders that are repaired, one whose repairs do not help.

Random numbers are an argument.
"""

import random
from dataclasses import dataclass

from lab.world.bad_links import BURST, BURST_NS, LOSS_NS, BadLink, Part, losses_of_episode
from lab.world.demo_faults import LinkFlap
from lab.world.effects import Interval
from streams.fabric.inventory import Inventory, Link

_S = 1_000_000_000
_FIRST_S = 2.0
_AGAIN_S = 17.0
"""Later by more than the quiet time of `link/flap`, eight seconds in the demo, so that it is another episode."""
_SECOND_LINK_S = 12.0
"""From the second episode of the first link of a switch to that of the second link, while the first is drained."""


@dataclass(frozen=True, slots=True)
class RepairScenario:
    """The bad links, and a link that flaps once and then is sound."""

    repaired: BadLink
    same_switch: BadLink
    not_cured: BadLink
    of_host: BadLink
    once: LinkFlap

    @property
    def bad_links(self) -> tuple[BadLink, ...]:
        """Return all bad links."""
        return self.repaired, self.same_switch, self.not_cured, self.of_host


def plan(inventory: Inventory, start_ns: int, duration_s: float, rng: random.Random) -> RepairScenario:
    """Return the bad links, each of another switch but `same_switch`; they flap until `duration_s` is over.

    The fabric needs four leaves, each with two uplinks or more. Raises ValueError on a smaller one.
    """
    uplinks: dict[str, list[Link]] = {}
    for link in inventory.links:
        if link.role == "fabric-link":
            uplinks.setdefault(link.a_device, []).append(link)
    leaves = sorted(device for device, links in uplinks.items() if len(links) > 1)
    if len(leaves) < 4:
        raise ValueError(f"four leaves with two uplinks or more are needed, and the fabric has {len(leaves)}")
    first, second, third, fourth = rng.sample(leaves, 4)
    repaired, same_switch = rng.sample(uplinks[first], 2)
    host_links = [link for link in inventory.links if link.role == "host-link" and link.z_device == third]
    end_ns = start_ns + round(duration_s * _S)

    def bad(link: Link, part: Part, later_s: float = 0.0) -> BadLink:
        again_ns = start_ns + round((_AGAIN_S + later_s) * _S)
        return BadLink(link, part, (_first(start_ns), Interval(again_ns, max(end_ns, again_ns + LOSS_NS))))

    return RepairScenario(
        bad(repaired, Part.CONNECTOR),
        bad(same_switch, Part.CONNECTOR, _SECOND_LINK_S),
        bad(rng.choice(uplinks[second]), Part.PORT),
        bad(rng.choice(host_links), Part.CONNECTOR),
        LinkFlap(rng.choice(uplinks[fourth]), losses_of_episode(_first(start_ns))),
    )


def _first(start_ns: int) -> Interval:
    begin_ns = start_ns + round(_FIRST_S * _S)
    return Interval(begin_ns, begin_ns + (BURST - 1) * BURST_NS + LOSS_NS)
