"""An SNMP agent whose responses are made by a function.

`python -m tests.fakes.snmp_device ROWS BYTES` prints the port of one whose columns have that many rows, with texts of
that many bytes.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from collectors.snmp import ber, mib, vendor_optics
from collectors.snmp.ber import encoded
from collectors.snmp.optics import entity_row

Result = list[tuple[bytes, int | bytes]]
Answer = Callable[[list[bytes], int], tuple[int, Result]]


class Device(asyncio.DatagramProtocol):
    """Responds to each request with the status and the values of a function of its OIDs and repetitions."""

    port = 0

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[tuple[int, int]] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        body = ber.element(data, 0, len(data))
        version = ber.element(data, body.start, body.end)
        community = ber.element(data, version.end, body.end)
        pdu = ber.element(data, community.end, body.end)
        request = ber.element(data, pdu.start, pdu.end)
        first = ber.element(data, request.end, pdu.end)
        second = ber.element(data, first.end, pdu.end)
        oids = [name for name, _, _ in ber.varbinds(data, *ber.element(data, second.end, pdu.end))]
        repetitions = int.from_bytes(data[slice(*second)], "big")
        self.asked.append((len(oids), repetitions))
        status, result = self._answer(oids, repetitions)
        varbinds = b"".join(encoded(ber.SEQUENCE, encoded(ber.OID, name) + _encoded(value)) for name, value in result)
        numbers = data[pdu.start : request.end] + encoded(ber.INTEGER, bytes((status,))) + b"\x02\x01\x00"
        whole = encoded(ber.RESPONSE, numbers + encoded(ber.SEQUENCE, varbinds))
        self._transport.sendto(encoded(ber.SEQUENCE, data[body.start : community.end] + whole), address)


def _encoded(value: int | bytes) -> bytes:
    return encoded(ber.OCTETS, value) if isinstance(value, bytes) else encoded(ber.INTEGER, ber.integer(value))


_COLUMNS = (
    *mib.INTERFACES, *mib.STATES, *mib.EVERY_COUNTER, *mib.ENTITIES, mib.ENTITY_ALIAS, *mib.LLDP_REMOTE,
    *mib.LLDP_LOCAL, *mib.SENSORS, *vendor_optics.EVERY_COLUMN,
)  # fmt: skip


def large(rows: int, size: int) -> Answer:
    """Return the responses of a device with these rows in each column; texts have the size."""
    filler = b" Ethernet7 lane 1 rx" * (size // 20)
    texts = {mib.IF_NAME, mib.IF_DESCR, *mib.ENTITIES} - {mib.ENTITY_CLASS, mib.ENTITY_PARENT}

    def cell(column: bytes, row: int) -> tuple[bytes, int | bytes]:
        if column in texts:
            return column + entity_row(row), b"Ethernet%d" % row + filler
        return column + entity_row(row), {mib.IF_TYPE: 6, mib.ENTITY_PARENT: max(1, row - 1)}.get(column, 8)

    def answer(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
        if not repetitions:
            return 0, [(name, 1) for name in oids]
        begun = [next(((c, name[len(c) :]) for c in _COLUMNS if name.startswith(c)), (b"", b"")) for name in oids]
        places = [(column, ber.sub_identifiers(row)[0] if row else 0) for column, row in begun]
        found: Result = []
        for number in range(1, repetitions + 1):
            for column, row in places:
                has_more = column and row + number <= rows
                found.append(cell(column, row + number) if has_more else (mib.oid("1.3.9"), 0))
            if len(found) * max(size, 1) > 40_000:  # a datagram has 64 KiB
                break
        return 0, found

    return answer


async def main(rows: int, size: int) -> None:
    """Serve until the process is ended."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Device(large(rows, size)), local_addr=("127.0.0.1", 0)
    )
    sys.stdout.write(f"{transport.get_extra_info('sockname')[1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
