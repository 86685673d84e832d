"""`python -m lab.servers.repair FOLDER TARGET A Z` repairs a link of the simulated fabric, as a technician would.

FOLDER is the simulator's folder; A and Z are the ends, as DEVICE:PORT. It prints the repair, and exits with 1 and one
line if the simulator refuses or does not answer. It fits `links.repair_command` of deploy/automation.
"""

import argparse
import sys
from pathlib import Path

import grpc
import orjson

from lab.servers.files import REPAIRS
from lab.servers.repair_server import METHOD, SERVICE
from streams.wire.errors import Misconfigured

_TIMEOUT_S = 10.0


def main() -> int:
    """Repair one link; return the exit status."""
    parser = argparse.ArgumentParser(prog="lab.servers.repair", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the simulator")
    parser.add_argument("target", help="id of the link, for the output")
    parser.add_argument("a", help="one end, as DEVICE:PORT")
    parser.add_argument("z", help="the other end")
    arguments = parser.parse_args()
    try:
        done = repair(address(arguments.folder), arguments.a, arguments.z)
    except Misconfigured as error:
        sys.stderr.write(f"repair of {arguments.target}: {error}\n")
        return 1
    sys.stdout.write(f"{done}\n")
    return 0


def address(folder: Path) -> str:
    """Return the address of the repair server; raise Misconfigured."""
    path = folder / REPAIRS
    try:
        return str(orjson.loads(path.read_bytes())["address"])
    except OSError as error:
        raise Misconfigured(
            f'cannot read {path}: {error.strerror}; run the simulator with collect.sim.scenario = "repairs"'
        ) from error
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Misconfigured(f"{path} has no address ({error!r}); start the simulator again") from error


def repair(at: str, a: str, z: str) -> str:
    """Repair the link between two ends and return the repair; raise Misconfigured with the reason of a refusal."""
    with grpc.insecure_channel(at) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/{METHOD}")
        try:
            return str(orjson.loads(call(orjson.dumps({"a": a, "z": z}), timeout=_TIMEOUT_S))["done"])
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise Misconfigured(f"no simulator answers at {at}; start `railsight collect sim`") from error
            raise Misconfigured(str(error.details())) from error


if __name__ == "__main__":
    sys.exit(main())
