"""Discovers the ports of a host: joins RDMA devices with netdevs and reads their identity, not their role.

It reads no hardware counter; for an excluded port it reads only the names.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from collectors.kernel import values
from collectors.kernel.ports import Port
from collectors.kernel.tree import Refusal, Tree
from collectors.kernel.values import Vpd, vpd
from streams.wire.errors import Reject

_NVIDIA = "0x15b3"
_VPD_BYTES = 1 << 15
_REPRESENTOR = ("vf", "sf", "pf")
"""Forms of `phys_port_name` of ports for other functions: `pf0vf1`, `c1pf0`, `pf0sf88`; an uplink is `p0`."""
_IPOIB = "32"


class Discovery:
    """Discovers ports repeatedly; constant values that are expensive to read are read once per device."""

    def __init__(self, tree: Tree, exclude: Iterable[str], max_ports: int) -> None:
        self._tree = tree
        self._rdma = f"{tree.sys}/class/infiniband"
        self._net = f"{tree.sys}/class/net"
        self._exclude = tuple(exclude)
        self._max = max_ports
        self._bare: set[tuple[str, int]] = set()
        self._vpd: dict[tuple[str, tuple[int, ...]], Vpd] = {}

    def ctimes(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """Return a value that changes when a device is added, removed or recreated; it takes two directory listings.

        Netdevs without a device are ignored: containers create and delete theirs continuously.
        """
        netdevs = self._tree.ctimes(self._net)
        self._bare = {
            born for born in netdevs if born in self._bare or not self._tree.target(f"{self._net}/{born[0]}/device")
        }
        return self._tree.ctimes(self._rdma), tuple(born for born in netdevs if born not in self._bare)

    def ports(self, restricted: frozenset[str] = frozenset()) -> tuple[Port, ...]:
        """Return the ports with distinct identities, up to the limit; the first of two with one identity.

        The speed of `restricted` identities is not read.
        """
        routes = values.default_routes(
            self._tree.read_kernel_text("net/route"), self._tree.read_kernel_text("net/ipv6_route")
        )
        netdevs = {port.netdev: port for port in self._netdevs(routes)}
        found: dict[str, Port] = {}
        joined: set[str] = set()
        for port in self._rdma_ports(netdevs):
            joined.add(port.netdev)
            if len(found) < self._max:
                found.setdefault(port.identity, port)
        for port in netdevs.values():
            if port.netdev not in joined and len(found) < self._max:
                found.setdefault(port.identity, port)
        wanted = (port for port in found.values() if not port.matches(self._exclude))
        return tuple(self._completed(port, asks=port.identity not in restricted) for port in wanted)

    def _netdevs(self, routes: frozenset[str]) -> Iterator[Port]:
        for name, born in self._tree.ctimes(self._net):
            base = f"{self._net}/{name}"
            inside = self._tree.names(base)
            if not inside:  # `bonding_masters` is a file, and a symbolic link may dangle
                continue
            device = self._tree.target(f"{base}/device")
            last = device.rpartition("/")[2]
            pci = values.pci_address(device)
            uppers = {entry.removeprefix("upper_") for entry in inside if entry.startswith("upper_")}
            if "master" in inside:
                uppers.add(self._tree.target(f"{base}/master").rpartition("/")[2])
            yield Port(
                netdev=name,
                mac=values.mac(self._tree.read_proc(f"{base}/address")),
                pci=pci,
                function="" if last == pci else last,
                folder=device,
                link_layer="InfiniBand" if self._tree.read_proc(f"{base}/type") == _IPOIB else "Ethernet",
                dev_port=self._dev_port(base),
                is_virtual=not device or self._is_virtual(device, self._tree.read_proc(f"{base}/phys_port_name")),
                has_default_route=bool(routes & {name, *uppers}),
                born=(born,),
            )

    def _dev_port(self, base: str) -> int:
        """Return the index of a netdev within its function; kernels before 3.15 have it in `dev_id`."""
        port, number = self._tree.read_proc(f"{base}/dev_port"), self._tree.read_proc(f"{base}/dev_id")
        if port.isdecimal():
            return int(port)
        try:
            return int(number, 16)
        except ValueError:
            return 0

    def _is_virtual(self, device: str, phys_port_name: str) -> bool:
        is_function = bool(self._tree.target(f"{device}/physfn")) or ".sf." in device
        return is_function or any(mark in phys_port_name for mark in _REPRESENTOR)

    def _rdma_ports(self, netdevs: dict[str, Port]) -> Iterator[Port]:
        for name, born in self._tree.ctimes(self._rdma):
            base = f"{self._rdma}/{name}"
            device = self._tree.target(f"{base}/device")
            numbers = sorted(int(number) for number in self._tree.names(f"{base}/ports") if number.isdecimal())
            for number in numbers:
                port = Port(
                    rdma=name,
                    number=number,
                    of_several=len(numbers) > 1,
                    node_guid=values.guid(self._tree.read_proc(f"{base}/node_guid")),
                    port_guid=values.port_guid(self._tree.read_proc(f"{base}/ports/{number}/gids/0")),
                    pci=values.pci_address(device),
                    folder=device,
                    link_layer=self._tree.read_proc(f"{base}/ports/{number}/link_layer"),
                    board=self._tree.read_proc(f"{base}/board_id"),
                    model=self._tree.read_proc(f"{base}/hca_type"),
                    firmware=self._tree.read_proc(f"{base}/fw_ver"),
                    is_virtual=bool(device) and self._is_virtual(device, ""),
                    born=(born,),
                )
                yield self._with_netdev(port, netdevs)

    def _with_netdev(self, port: Port, netdevs: dict[str, Port]) -> Port:
        """Join an RDMA port with its netdev: by the kernel's reference, else by its place in the function."""
        reference = self._tree.read_proc(f"{self._rdma}/{port.rdma}/ports/{port.number}/gid_attrs/ndevs/0")
        of_function = [
            net
            for net in netdevs.values()
            if port.pci and net.pci == port.pci and net.is_virtual == port.is_virtual
            and (net.link_layer == "InfiniBand") == (port.link_layer == "InfiniBand")
        ]  # fmt: skip
        # A function with one port may number it 0 and name it 1; a card with two ports in one function numbers both.
        at_place = [net for net in of_function if net.dev_port == port.number - 1] if port.of_several else of_function
        net = netdevs.get(reference) or (at_place[0] if at_place else None)
        if net is None:
            return port
        # A bond's RDMA device without a `device` link has no hardware: its counters repeat those of its ports.
        is_bond = not port.folder and "bonding" in self._tree.names(f"{self._net}/{net.netdev}")
        return replace(
            port, netdev=net.netdev, mac=net.mac, dev_port=net.dev_port, has_default_route=net.has_default_route,
            born=(*port.born, *net.born), is_virtual=port.is_virtual or is_bond,
        )  # fmt: skip

    def _completed(self, port: Port, *, asks: bool) -> Port:
        """Return the port with values read from the device: driver, model, vital product data, and speed."""
        device = f"{self._rdma}/{port.rdma}/device" if port.rdma else f"{self._net}/{port.netdev}/device"
        vendor = self._tree.read_proc(f"{device}/vendor")
        product = self._vital(device, port) if vendor == _NVIDIA and not port.is_virtual else Vpd()
        port = replace(
            port,
            vendor=vendor,
            model=port.model or self._tree.read_proc(f"{device}/device"),
            driver=self._tree.target(f"{device}/driver").rpartition("/")[2],
            part_number=product.part_number,
            serial=product.serial,
            is_restricted=product.is_restricted,
        )
        return replace(port, speed_bps=self._speed(port)) if asks and not port.is_restricted else port

    def _vital(self, device: str, port: Port) -> Vpd:
        key = port.card, port.born
        if key not in self._vpd:
            try:
                self._vpd[key] = vpd(self._tree.read_bytes(f"{device}/vpd", _VPD_BYTES) or b"")
            except Refusal:  # only root may read the file
                self._vpd[key] = Vpd()
        return self._vpd[key]

    def _speed(self, port: Port) -> float | None:
        try:
            if port.has_ethernet_state:
                speed = self._tree.read_proc(f"{self._net}/{port.netdev}/speed")
                return values.speed_bps(speed) if speed else None
            rate = self._tree.read_proc(f"{self._rdma}/{port.rdma}/ports/{port.number}/rate") if port.rdma else ""
            return values.rate_bps(rate) if rate else None
        except Reject:
            return None
