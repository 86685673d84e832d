"""Runs an SNMP agent for measurements: a switch of any number of ports, with all columns of ifTable and ifXTable.

python -m lab.bench.snmp_agent PORTS

It uses pysnmp's engine and responders, v2c (`public`) and v3 authPriv (`rail`, SHA-256 and AES-128), on a free port of
loopback, which it prints on standard output. It runs in its own process, so that its CPU is not counted.
"""

import asyncio
import sys
from bisect import bisect_left, bisect_right
from typing import Any

from pysnmp.carrier.asyncio.dgram import udp
from pysnmp.carrier.asyncio.dispatch import AsyncioDispatcher
from pysnmp.entity import config
from pysnmp.entity.engine import SnmpEngine
from pysnmp.entity.rfc3413 import cmdrsp, context
from pysnmp.proto import rfc1902
from pysnmp.proto.rfc1905 import endOfMibView, noSuchInstance
from pysnmp.smi.instrum import AbstractMibInstrumController

COMMUNITY, USER, AUTH_SECRET, PRIVACY_SECRET = "public", "rail", "authentic-secret", "private-secret"
CLEAR_USER = "clear"
"""A user with authentication and without encryption (authNoPriv)."""
IF_TABLE, IFX_TABLE = (1, 3, 6, 1, 2, 1, 2, 2, 1), (1, 3, 6, 1, 2, 1, 31, 1, 1, 1)
_COUNTER32 = (*range(10, 21),), (2, 3, 4, 5)
_COUNTER64 = tuple(range(6, 14))


def cell(table: tuple[int, ...], column: int, port: int) -> Any:
    """Return one value, with the type in its MIB and a length typical of a switch in use."""
    if table == IF_TABLE:
        if column in (2, 6, 22):
            if column == 22:
                return rfc1902.ObjectIdentifier((0, 0))
            return rfc1902.OctetString(f"Ethernet{port}" if column == 2 else bytes((2, 0, 0, 0, 0, port % 256)))
        if column in _COUNTER32[0]:
            return rfc1902.Counter32(1_000_003 * port * column % 2**32)
        if column in (5, 21):
            return rfc1902.Gauge32(4_294_967_295 if column == 5 else 0)
        return (
            rfc1902.TimeTicks(1_692_177_370)
            if column == 9
            else rfc1902.Integer32({1: port, 3: 6, 4: 9214}.get(column, 1))
        )
    if column in (1, 18):
        return rfc1902.OctetString(f"Ethernet{port}" if column == 1 else "")
    if column in _COUNTER32[1]:
        return rfc1902.Counter32(1_000_003 * port * column % 2**32)
    if column in _COUNTER64:
        return rfc1902.Counter64(1_000_000_007_000 * port * column)
    if column in (15, 19):
        return rfc1902.Gauge32(400_000) if column == 15 else rfc1902.TimeTicks(0)
    return rfc1902.Integer32(1)


class Columns(AbstractMibInstrumController):  # type: ignore[misc]
    """The cells of both tables in order."""

    def __init__(self, ports: int) -> None:
        cells = {
            (*table, column, port): cell(table, column, port)
            for table, columns in ((IF_TABLE, 22), (IFX_TABLE, 19))
            for column in range(1, columns + 1)
            for port in range(1, ports + 1)
        }
        cells[1, 3, 6, 1, 2, 1, 1, 3, 0] = rfc1902.TimeTicks(1_692_177_370)
        self._names = sorted(cells)
        self._values = [cells[name] for name in self._names]

    def read_variables(self, *asked: Any, **_: Any) -> list[Any]:
        """Answer GET."""
        found = []
        for name, _value in asked:
            i = bisect_left(self._names, tuple(name))
            known = i < len(self._names) and self._names[i] == tuple(name)
            found.append((name, self._values[i] if known else noSuchInstance))
        return found

    def read_next_variables(self, *asked: Any, **_: Any) -> list[Any]:
        """Answer GETNEXT, and each step of GETBULK."""
        found = []
        for name, _value in asked:
            i = bisect_right(self._names, tuple(name))
            if i == len(self._names):
                found.append((name, endOfMibView))
            else:
                found.append((rfc1902.ObjectName(self._names[i]), self._values[i]))
        return found


async def serve(ports: int) -> None:
    """Answer until the process is ended."""
    loop = asyncio.get_running_loop()
    engine = SnmpEngine()
    transport = udp.UdpAsyncioTransport(loop=loop)
    endpoint, _ = await loop.create_datagram_endpoint(lambda: transport, local_addr=("127.0.0.1", 0))
    engine.register_transport_dispatcher(AsyncioDispatcher(loop=loop))
    config.add_transport(engine, udp.DOMAIN_NAME, transport)
    config.add_v1_system(engine, "public", COMMUNITY)
    config.add_v3_user(
        engine, USER, config.USM_AUTH_HMAC192_SHA256, AUTH_SECRET, config.USM_PRIV_CFB128_AES, PRIVACY_SECRET
    )
    config.add_vacm_user(engine, 2, "public", "noAuthNoPriv", (1,))
    config.add_vacm_user(engine, 3, USER, "authPriv", (1,))
    config.add_v3_user(engine, CLEAR_USER, config.USM_AUTH_HMAC192_SHA256, AUTH_SECRET)
    config.add_vacm_user(engine, 3, CLEAR_USER, "authNoPriv", (1,))
    served = context.SnmpContext(engine)
    served.unregister_context_name(b"")
    served.register_context_name(b"", Columns(ports))
    cmdrsp.GetCommandResponder(engine, served)
    cmdrsp.NextCommandResponder(engine, served)
    cmdrsp.BulkCommandResponder(engine, served).max_varbinds = 1000
    sys.stdout.write(f"{endpoint.get_extra_info('sockname')[1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
