"""Paths of the real recordings: beside the project, or in RAILSIGHT_DATA. Tests that need one skip without it."""

import os
from pathlib import Path

DATA = Path(os.environ.get("RAILSIGHT_DATA", Path(__file__).parents[2] / "shared" / "data"))
FLAPPER = DATA / "timeseries" / "clos-100g-flapper"
