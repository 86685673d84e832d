"""Thresholds of rail/unreachable."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Ratio, Seconds, Thresholds


class UnreachableParams(Thresholds):
    """`[detect.unreachable]`: when a rail answers to no one while the other rails of its host do."""

    unreached_ratio: Ratio = 0.9
    """Share of the probes of and to the rail that are lost: all but those at the ends of a window."""

    others_ratio: Ratio = 0.5
    """The host's other rails lose less than this share: else the host is at fault (choice: most of them answer)."""

    peers: Annotated[int, Field(ge=1)] = 3
    """Other hosts whose probes to the rail are lost: `[collect.probe] tor_targets` are on its leaf."""

    open_windows: Annotated[int, Field(ge=1)] = 3
    """Windows in a row: 30 s, as link/down waits. A link that trains or a route that changes takes less."""

    clear_s: Seconds = 60
    """Answering for this long; a rail that comes and goes is one finding (choice)."""
