"""Thresholds of link/miscabled."""

from streams.detect.thresholds import Seconds, Thresholds


class MiscabledParams(Thresholds):
    """`[detect.miscabled]`: LLDP neighbors of a link's ends against the inventory."""

    hold_s: Seconds = 300
    """The least duration. IEEE 802.1AB retains a neighbor for 4 x 30 s after its last frame: an entry from before a
    change lives for 120 s, and this is twice that and a minute."""

    moved_s: Seconds = 7_800
    """After the inventory moved a link: collectors read neighbors each hour, so two readings, and ten minutes to move
    the cable."""

    lost_s: Seconds = 86_400
    """Closes when no end has a neighbor for a day: a port out of use does not stay miscabled."""
