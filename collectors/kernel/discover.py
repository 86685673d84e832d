"""Discovers the ports of a host: joins RDMA devices with netdevs and reads their identity, not their role.

It reads no hardware counter; for an excluded port it reads only the names.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from collectors.kernel import values
from collectors.kernel.ports import Port
from collectors.kernel.rdma_links import NONE, RdmaLinks, read_links
from collectors.kernel.tree import Refusal, Tree
from collectors.kernel.values import Vpd, vpd
from streams.wire.errors import Reject

_NVIDIA = "0x15b3"
_VPD_BYTES = 1 << 15
_REPRESENTOR = ("vf", "sf", "pf")
"""Forms of `phys_port_name` of ports for other functions: `pf0vf1`, `c1pf0`, `pf0sf88`; an uplink is `p0`."""
_IPOIB = "32"
_SMI = "smi"
"""The beginning of the names of devices that only manage the planes of an InfiniBand port (XDR)."""


class Discovery:
    """Discovers ports repeatedly; constant values that are expensive to read are read once per device."""

    def __init__(
        self, tree: Tree, exclude: Iterable[str], max_ports: int, links: Callable[[], RdmaLinks] | None = None
    ) -> None:
        self._tree = tree
        self._read_links = links or (read_links if tree.is_live else lambda: NONE)
        self._links = NONE
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
        self._links = self._read_links()
        netdevs = {port.netdev: port for port in self._netdevs(routes)}
        ports = list(self._rdma_ports(netdevs))
        joined = {port.netdev for port in ports}
        ports += (port for port in netdevs.values() if port.netdev not in joined)
        found: dict[str, Port] = {}
        for port in sorted(ports, key=lambda port: port.is_virtual):  # a host may have a thousand virtual functions
            if len(found) < self._max:
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
            master = self._tree.target(f"{base}/master").rpartition("/")[2] if "master" in inside else ""
            uppers = {entry.removeprefix("upper_") for entry in inside if entry.startswith("upper_")}
            uppers |= {master} - {""}
            yield Port(
                netdev=name,
                master=master,
                mac=values.mac(self._tree.read_proc(f"{base}/address")),
                pci=pci,
                switch=self._tree.read_proc(f"{base}/phys_switch_id"),
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
        devices = {name: self._rdma_device(name, born) for name, born in self._tree.ctimes(self._rdma)}
        owned = {device.pci for device in devices.values() if not device.is_virtual}
        for name, device in devices.items():
            numbers = sorted(int(each) for each in self._tree.names(f"{self._rdma}/{name}/ports") if each.isdecimal())
            if name.startswith(_SMI) or name in self._links.smi:
                continue
            ports = [self._rdma_port(device, number, of_several=len(numbers) > 1) for number in numbers]
            is_ethernet = any(port.link_layer == "Ethernet" for port in ports)
            uplinks = self._uplinks(device, netdevs, owned) if is_ethernet else []
            if legs := self._legs(ports, uplinks):
                yield from legs
            elif len(ports) > 1 and uplinks:
                yield from self._planes(ports, uplinks)
            else:
                yield from (self._with_netdev(port, netdevs) for port in ports)

    def _rdma_device(self, name: str, born: int) -> Port:
        base = f"{self._rdma}/{name}"
        folder = self._tree.target(f"{base}/device")
        return Port(
            rdma=name,
            node_guid=values.guid(self._tree.read_proc(f"{base}/node_guid")),
            pci=values.pci_address(folder),
            folder=folder,
            board=self._tree.read_proc(f"{base}/board_id"),
            model=self._tree.read_proc(f"{base}/hca_type"),
            firmware=self._tree.read_proc(f"{base}/fw_ver"),
            parent=self._parent(folder),
            is_virtual=bool(folder) and self._is_virtual(folder, ""),
            born=(born,),
        )

    def _parent(self, folder: str) -> str:
        """Return the PCI address of a virtual function's or a subfunction's physical function; else empty."""
        if not folder or not self._is_virtual(folder, ""):
            return ""
        return values.pci_address(self._tree.target(f"{folder}/physfn") or folder)

    def _reference(self, rdma: str, number: int) -> str:
        """Return the netdev of an RDMA port by the kernel's reference; that of sysfs needs a valid GID."""
        if netdev := self._links.netdevs.get((rdma, number)):
            return netdev
        return self._tree.read_proc(f"{self._rdma}/{rdma}/ports/{number}/gid_attrs/ndevs/0")

    def _rdma_port(self, device: Port, number: int, *, of_several: bool) -> Port:
        base = f"{self._rdma}/{device.rdma}/ports/{number}"
        return replace(
            device,
            number=number,
            of_several=of_several,
            port_guid=values.port_guid(self._tree.read_proc(f"{base}/gids/0")),
            link_layer=self._tree.read_proc(f"{base}/link_layer"),
        )

    def _uplinks(self, device: Port, netdevs: dict[str, Port], owned: Collection[str]) -> list[Port]:
        """Return the netdevs of the physical ports of a card that belong to this RDMA device, in the order of the card.

        A card is one slot, or one switch of the kernel; a function with an RDMA device of its own has its ports. A
        bond's RDMA device without a `device` link has the ports of the bond.
        """
        if device.is_virtual:
            return []
        reference = self._reference(device.rdma, 1)
        switches = {net.switch for net in netdevs.values() if net.pci == device.pci} - {""}
        found = [
            net for net in netdevs.values()
            if not net.is_virtual and net.link_layer == "Ethernet"
            and (net.pci[:-1] == device.pci[:-1] or net.switch in switches if device.pci
                 else net.master == reference != "")
            and (net.pci == device.pci or net.pci not in owned)
        ]  # fmt: skip
        return sorted(found, key=lambda net: (net.pci, net.dev_port))

    def _legs(self, ports: list[Port], uplinks: list[Port]) -> list[Port]:
        """Return the ports of a LAG that the card has: the RDMA device is of the bond, and its state is the bond's.

        Its counters are the sums of all legs (core/lag/lag.c), so that the first leg alone has them. Of a card that
        switches, one port is the uplink of all legs, which the kernel's reference to the bond or a leg names.
        """
        bonds = {net.master for net in uplinks if "bonding" in self._tree.names(f"{self._net}/{net.master or '.'}")}
        rdma = ports[0] if ports else Port()
        legs = [net for net in uplinks if net.master in bonds] or (uplinks if "bond" in rdma.rdma else [])
        if len(legs) < 2 or len({net.master for net in legs}) > 1:
            return []
        names = {legs[0].master, *(net.netdev for net in legs)} - {""}
        named = [
            port for port in ports if len(ports) == 1 or self._reference(port.rdma, port.number) in names
        ]  # fmt: skip
        if len(named) > 1:  # a bond of ports that have each their own
            return []
        found = [
            replace(net, lag=rdma.rdma, board=rdma.board, model=rdma.model, firmware=rdma.firmware,
                    born=(*rdma.born, *net.born))
            for net in legs
        ]  # fmt: skip
        if named:
            found[0] = replace(self._joined(named[0], legs[0]), lag=rdma.rdma)
        return found

    def _planes(self, ports: list[Port], uplinks: list[Port]) -> Iterator[Port]:
        """Yield the ports of an RDMA device that has those of several functions: each uplink once, no representor.

        The kernel's reference names the netdev of a port that has a valid GID. Without one, function k of a card with V
        ports for each function has its uplink at (k + 1)V (hw/mlx5/ib_rep.c).
        """
        by_name = {net.netdev: net for net in uplinks}
        taken: dict[str, Port] = {}
        for port in ports:
            reference = self._reference(port.rdma, port.number)
            if reference in by_name:
                taken.setdefault(reference, port)
        free = {port.number: port for port in ports if port not in taken.values()}
        each, rest = divmod(len(ports), len(uplinks))
        for place, net in enumerate(uplinks, 1):
            own = taken.get(net.netdev) or (None if rest else free.get(ports[0].number - 1 + place * each))
            yield replace(net, lag=ports[0].rdma) if own is None else self._joined(own, net)

    def _joined(self, port: Port, net: Port) -> Port:
        return replace(
            port, netdev=net.netdev, mac=net.mac, dev_port=net.dev_port, has_default_route=net.has_default_route,
            pci=net.pci or port.pci, folder=net.folder or port.folder, born=(*port.born, *net.born),
        )  # fmt: skip

    def _with_netdev(self, port: Port, netdevs: dict[str, Port]) -> Port:
        """Join an RDMA port with its netdev: by the kernel's reference, else by its place in the function."""
        reference = self._reference(port.rdma, port.number)
        of_function = [
            net
            for net in netdevs.values()
            if port.pci and net.pci == port.pci and net.is_virtual == port.is_virtual
            and (net.link_layer == "InfiniBand") == (port.link_layer == "InfiniBand")
        ]  # fmt: skip
        # A function with one port may number it 0 and name it 1; a card with two ports in one function numbers both.
        at_place = [net for net in of_function if net.dev_port == port.number - 1] if port.of_several else of_function
        named = netdevs.get(reference)
        # A bond's addresses are at each of its ports, also without a LAG of the card.
        is_of_a_bond = named is not None and named.is_virtual and not named.folder and bool(at_place)
        net = named if named is not None and not is_of_a_bond else next(iter(at_place), None)
        if net is None:
            return port
        # A bond's RDMA device without a `device` link has no hardware: its counters repeat those of its ports.
        is_bond = not port.folder and "bonding" in self._tree.names(f"{self._net}/{net.netdev}")
        joined = self._joined(port, net)
        return replace(joined, pci=port.pci, folder=port.folder, is_virtual=port.is_virtual or is_bond)

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
        asks &= port.has_link_state and not port.is_restricted
        return replace(port, speed_bps=self._speed(port)) if asks else port

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
