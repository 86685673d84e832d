"""Asks the kernel for FEC statistics and the memory of modules over ethtool's netlink family. I/O only.

Numbers: include/uapi/linux/ethtool_netlink.h. A driver answers for as long as its firmware takes: seconds for a page.
"""

import os
import struct

from collectors.kernel.netlink import GENERIC, Netlink, attribute, attributes, number
from streams.wire.errors import Reject

_TIMEOUT_S = 10.0
_GENERIC = struct.Struct("=BBH")
"""`struct genlmsghdr`: command, version, reserved."""
_CONTROLLER, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 0x10, 3, 1, 2
_FEC_GET, _EEPROM_GET = 29, 31
_HEADER, _DEV_NAME, _FLAGS, _WITH_STATISTICS = 1, 2, 3, 4
_FEC_STATS = 5
_OFFSET, _LENGTH, _PAGE, _BANK, _I2C_ADDRESS, _DATA = 2, 3, 4, 5, 6, 7
_MODULE_ADDRESS = 0x50


class EthtoolNetlink:
    """One socket, for one thread. Raises OSError if the kernel lacks the family, and Reject."""

    def __init__(self, link: Netlink | None = None) -> None:
        self._link = link or Netlink(GENERIC, _TIMEOUT_S)
        body = _GENERIC.pack(_GET_FAMILY, 1, 0) + attribute(_FAMILY_NAME, b"ethtool\0")
        try:
            answers = self._link.request(_CONTROLLER, body)
            found = dict(attributes(answers[0][_GENERIC.size :])) if answers else {}
            if _FAMILY_ID not in found:
                raise Reject("the kernel's answer has no number of the family `ethtool`")
            self._family = number(found[_FAMILY_ID])
        except BaseException:
            self._link.close()
            raise

    def close(self) -> None:
        """Close it."""
        self._link.close()

    def fec_statistics(self, netdev: str) -> bytes:
        """Return the attributes of a port's FEC statistics, empty without any; raises OSError and Reject."""
        return self._request(_FEC_GET, netdev, b"", flags=_WITH_STATISTICS).get(_FEC_STATS, b"")

    def module_memory(self, netdev: str, page: int, offset: int, length: int, bank: int = 0) -> bytes:
        """Return at most 128 bytes of one page; those of pages other than 0 begin at 128. Raises OSError and Reject."""
        asked = (
            attribute(_OFFSET, struct.pack("=I", offset)) + attribute(_LENGTH, struct.pack("=I", length))
            + attribute(_PAGE, bytes([page])) + attribute(_BANK, bytes([bank]))
            + attribute(_I2C_ADDRESS, bytes([_MODULE_ADDRESS]))
        )  # fmt: skip
        return self._request(_EEPROM_GET, netdev, asked).get(_DATA, b"")

    def _request(self, command: int, netdev: str, body: bytes, flags: int = 0) -> dict[int, bytes]:
        header = attribute(_DEV_NAME, os.fsencode(netdev) + b"\0") + attribute(_FLAGS, struct.pack("=I", flags))
        answers = self._link.request(
            self._family, _GENERIC.pack(command, 1, 0) + attribute(_HEADER | 0x8000, header) + body
        )
        return dict(attributes(answers[0][_GENERIC.size :])) if answers else {}
