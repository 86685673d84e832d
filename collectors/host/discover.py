"""Finds the NIC ports of a host in its trees. Reads; judges nothing, and asks no hardware for a counter."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from collectors.host.ports import HostPort
from collectors.host.tree import Tree
from collectors.host.vpd import fields

_A = re.ASCII
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", _A)
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5,31}", _A)
_GUID = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}", _A)
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec\b", _A)
_REPRESENTOR = ("vf", "sf", "pf")
_IPOIB = "32"
_NVIDIA = "0x15b3"
_VPD_BYTES = 1 << 15
_MOST_MBPS = 10_000_000


def find(tree: Tree, exclude: Iterable[str], most: int) -> tuple[HostPort, ...]:
    """Every port; where two seem the same, the first."""
    exclude = tuple(exclude)
    netdevs = {port.netdev: port for port in _netdevs(tree)}
    found: dict[str, HostPort] = {}
    joined: set[str] = set()
    for port in _rdma_ports(tree, netdevs):
        joined.add(port.netdev)
        found.setdefault(port.identity, port)
    for port in netdevs.values():
        if port.netdev not in joined:
            found.setdefault(port.identity, port)
    wanted = [port for port in found.values() if not port.matches(exclude)][:most]
    return tuple(_completed(tree, port) for port in wanted)


def _netdevs(tree: Tree) -> Iterator[HostPort]:
    routes = default_routes(tree.text(f"{tree.proc}/net/route") or "", tree.text(f"{tree.proc}/net/ipv6_route") or "")
    net = f"{tree.sys}/class/net"
    for name in tree.names(net):
        base = f"{net}/{name}"
        inside = tree.names(base)
        if not inside:
            continue
        folder = tree.target(f"{base}/device")
        last = folder.rpartition("/")[2]
        pci = pci_of(folder)
        uppers = {entry.removeprefix("upper_") for entry in inside if entry.startswith("upper_")}
        if "master" in inside:
            uppers.add(tree.target(f"{base}/master").rpartition("/")[2])
        yield HostPort(
            netdev=name,
            mac=_shaped(_MAC, tree.text(f"{base}/address")),
            pci=pci,
            function="" if last == pci else last,
            dev_port=_dev_port(tree, base),
            folder=folder,
            is_infiniband=tree.text(f"{base}/type") == _IPOIB,
            is_virtual=not folder or _is_virtual(tree, folder, tree.text(f"{base}/phys_port_name") or ""),
            has_default_route=bool(routes & {name, *uppers}),
        )


def _dev_port(tree: Tree, base: str) -> int:
    port, number = tree.text(f"{base}/dev_port") or "", tree.text(f"{base}/dev_id") or ""
    if port.isascii() and port.isdecimal():
        return int(port[:9])
    try:
        return int(number[:9], 16)
    except ValueError:
        return 0


def _is_virtual(tree: Tree, folder: str, phys_port_name: str) -> bool:
    is_function = bool(tree.target(f"{folder}/physfn")) or ".sf." in folder
    return is_function or any(word in phys_port_name for word in _REPRESENTOR)


def _rdma_ports(tree: Tree, netdevs: dict[str, HostPort]) -> Iterator[HostPort]:
    rdma = f"{tree.sys}/class/infiniband"
    for name in tree.names(rdma):
        base = f"{rdma}/{name}"
        folder = tree.target(f"{base}/device")
        numbers = sorted(int(n) for n in tree.names(f"{base}/ports") if n.isascii() and n.isdecimal() and len(n) < 10)
        for number in numbers:
            gid = tree.text(f"{base}/ports/{number}/gids/0") or ""
            port = HostPort(
                rdma=name,
                number=number,
                of_several=len(numbers) > 1,
                node_guid=_guid(tree.text(f"{base}/node_guid")),
                port_guid=_guid(":".join(gid.split(":")[4:])),
                pci=pci_of(folder),
                folder=folder,
                is_infiniband=tree.text(f"{base}/ports/{number}/link_layer") == "InfiniBand",
                is_virtual=bool(folder) and _is_virtual(tree, folder, ""),
                board=tree.text(f"{base}/board_id") or "",
                model=tree.text(f"{base}/hca_type") or "",
                firmware=tree.text(f"{base}/fw_ver") or "",
            )
            yield _with_netdev(tree, port, netdevs)


def _with_netdev(tree: Tree, port: HostPort, netdevs: dict[str, HostPort]) -> HostPort:
    """The netdev of an RDMA port: the kernel's own word, else the one at the same place of the same function."""
    said = tree.text(f"{tree.sys}/class/infiniband/{port.rdma}/ports/{port.number}/gid_attrs/ndevs/0") or ""
    of_function = [
        net
        for net in netdevs.values()
        if port.pci and net.pci == port.pci and net.is_virtual == port.is_virtual
        and net.is_infiniband == port.is_infiniband
    ]  # fmt: skip
    at_place = [net for net in of_function if net.dev_port == port.number - 1] if port.of_several else of_function
    net = netdevs.get(said) or (at_place[0] if at_place else None)
    if net is None:
        return port
    return replace(
        port, netdev=net.netdev, mac=net.mac, dev_port=net.dev_port, has_default_route=net.has_default_route
    )  # fmt: skip


def _completed(tree: Tree, port: HostPort) -> HostPort:
    """With driver, model, vital product data, and how fast it runs."""
    vendor = tree.text(f"{port.folder}/vendor") if port.folder else None
    said = fields(tree.data(f"{port.folder}/vpd", _VPD_BYTES) or b"") if vendor == _NVIDIA and port.rdma else {}
    return replace(
        port,
        model=port.model or (tree.text(f"{port.folder}/device") or "" if port.folder else ""),
        driver=tree.target(f"{port.folder}/driver").rpartition("/")[2] if port.folder else "",
        part_number=said.get("PN", ""),
        serial=said.get("SN", ""),
        speed_bps=_speed_bps(tree, port),
    )


def _speed_bps(tree: Tree, port: HostPort) -> float:
    """How fast it runs; 0 where it does not, or says nothing. An IPoIB netdev does not know."""
    if port.netdev and not port.is_infiniband:
        said = tree.text(f"{tree.sys}/class/net/{port.netdev}/speed") or ""
        mbps = int(said) if said.isascii() and said.isdecimal() and len(said) < 12 else 0
        return mbps * 1e6 if mbps < _MOST_MBPS else 0.0
    rate = tree.text(f"{tree.sys}/class/infiniband/{port.rdma}/ports/{port.number}/rate") or "" if port.rdma else ""
    said_rate = _RATE.match(rate)
    return float(said_rate[1]) * 1e9 if said_rate else 0.0


def pci_of(path: str) -> str:
    """The innermost PCI function on the way to a device."""
    found = [part for part in path.split("/") if _PCI.fullmatch(part)]
    return found[-1] if found else ""


def default_routes(ipv4: str, ipv6: str) -> frozenset[str]:
    """The netdevs that carry a default route, by `/proc/net/route` and `/proc/net/ipv6_route`."""
    found = set()
    for line in ipv4.splitlines()[1:]:
        words = line.split()
        if len(words) >= 8 and words[1] == words[7] == "00000000":
            found.add(words[0])
    for line in ipv6.splitlines():
        words = line.split()
        if len(words) >= 10 and words[0] == "0" * 32 and words[1] == "00":
            found.add(words[9])
    return frozenset(found - {"lo"})


def _shaped(shape: re.Pattern[str], text: str | None) -> str:
    said = (text or "").lower()
    return said if shape.fullmatch(said) and said.strip("0:") else ""


def _guid(text: str | None) -> str:
    return _shaped(_GUID, text)
