"""Where the real recordings lie: beside the project, or where RAILSIGHT_DATA says. Tests that need one skip without."""

import os
from pathlib import Path

DATA = Path(os.environ.get("RAILSIGHT_DATA", Path(__file__).parents[2] / "shared" / "data"))
FLAPPER = DATA / "timeseries" / "clos-100g-flapper"
