"""`python -m lab.servers [FOLDER]` runs the simulated fabric with its defaults and without Kafka, until Ctrl-C."""

import sys
from pathlib import Path

from lab.servers.serve import SPEC, Params

if __name__ == "__main__":
    SPEC.start(Params(folder=Path(sys.argv[1] if len(sys.argv) > 1 else "sim")))
