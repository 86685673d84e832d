"""Defines the reasons why a link is not proven to carry traffic."""

from collections.abc import Mapping
from enum import IntEnum


class Block(IntEnum):
    """The reason why an end of a link is not proven to carry traffic; the greatest of several is reported."""

    NONE = 0
    NOT_OBSERVED = 1
    STALE = 2
    DOWN = 3
    ADMIN_DOWN = 4


TEXTS: Mapping[Block, str] = {
    Block.NOT_OBSERVED: "is not observed",
    Block.STALE: "was not read lately",
    Block.DOWN: "is down",
    Block.ADMIN_DOWN: "is administratively down",
}
BLOCKS = (Block.NOT_OBSERVED, Block.NONE, Block.DOWN, Block.ADMIN_DOWN)
"""The reason for each PortState, by its number."""
