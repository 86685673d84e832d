"""`python -m lab.servers [FOLDER]` runs the simulated fabric with its defaults and without Kafka, until Ctrl-C."""

import argparse
from pathlib import Path

from lab.servers.serve import SPEC, Params

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m lab.servers", description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path("sim"), help="for the files it writes (default: sim)"
    )
    SPEC.start(Params(folder=parser.parse_args().folder))
