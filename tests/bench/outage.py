"""Kafka away for a minute under load, the collector killed in the middle of it: what came of it, as JSON.

    python -m tests.bench.outage [--outage 60] [--cadence 1]

200 devices of 64 ports; exit 1 where something promised is missing, out of order, or there twice downstream.
The same is played for some seconds in tests/integration/collectors/test_spool.py.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.integration.collectors.outage import play


def main() -> int:
    """Play it, print the outcome."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--outage", type=float, default=60.0)
    arguments.add_argument("--cadence", type=float, default=1.0)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(play(Path(folder), asked.outage, asked.cadence))
    print(json.dumps(asdict(outcome)))  # noqa: T201 — this is what it is for
    return bool(outcome.missing or outcome.disordered or outcome.twice_downstream)


if __name__ == "__main__":
    sys.exit(main())
