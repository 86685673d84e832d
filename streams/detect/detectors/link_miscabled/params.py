"""Thresholds of link/miscabled."""

from streams.detect.thresholds import Seconds, Thresholds


class MiscabledParams(Thresholds):
    """link/miscabled: what the ends of a link hear (LLDP) against the inventory."""

    hold_s: Seconds = 300
    """For so long it must stand. IEEE 802.1AB keeps a neighbour for 4 x 30 s after its last word: an entry of before a
    change lives for 120 s, and this is twice that and a minute."""

    moved_s: Seconds = 7_800
    """After the inventory moved a link: collectors read neighbours each hour, so two readings and ten minutes for
    whoever moves the cable."""

    lost_s: Seconds = 86_400
    """Over when no end has heard anything for a day: a port out of use is not miscabled for ever."""
