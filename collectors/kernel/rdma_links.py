"""Reads the netdev of each RDMA port from the kernel over netlink (`rdma link`), also without a valid GID.

Numbers: include/uapi/rdma/rdma_netlink.h. A tree of another machine, and a kernel without this family, have sysfs only.
"""

import contextlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from collectors.kernel.netlink import RDMA, Netlink, attribute, attributes, number, text
from streams.wire.errors import Reject

_NLDEV = 5 << 10
_GET, _PORT_GET = _NLDEV | 1, _NLDEV | 5
_DEV_INDEX, _DEV_NAME, _PORT_INDEX, _NETDEV, _DEV_TYPE = 1, 2, 3, 51, 99
_SMI = 1
_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class RdmaLinks:
    """The netdevs by RDMA device and port, and the devices that only manage the planes of an InfiniBand port."""

    netdevs: Mapping[tuple[str, int], str] = field(default_factory=dict)
    smi: frozenset[str] = frozenset()


NONE = RdmaLinks()


def read_links(opened: Callable[[], Netlink] = lambda: Netlink(RDMA, _TIMEOUT_S)) -> RdmaLinks:
    """Return what the kernel reports; nothing if it cannot, since sysfs is the second way. May block with a driver."""
    try:
        link = opened()
    except OSError:
        return NONE
    try:
        return _read(link)
    except (OSError, Reject):
        return NONE
    finally:
        link.close()


def _read(link: Netlink) -> RdmaLinks:
    netdevs: dict[tuple[str, int], str] = {}
    smi = set()
    for device in link.request(_GET, b"", is_dump=True):
        found = dict(attributes(device))
        if _DEV_INDEX not in found:
            continue
        name = text(found.get(_DEV_NAME, b""))
        if number(found.get(_DEV_TYPE, b"")) == _SMI:
            smi.add(name)
            continue
        asked = attribute(_DEV_INDEX, struct.pack("=I", number(found[_DEV_INDEX])))
        with contextlib.suppress(OSError):  # the device was removed since: the others are read
            for port in link.request(_PORT_GET, asked, is_dump=True):
                of_port = dict(attributes(port))
                if netdev := text(of_port.get(_NETDEV, b"")):
                    netdevs[name, number(of_port.get(_PORT_INDEX, b""))] = netdev
    return RdmaLinks(netdevs, frozenset(smi))
