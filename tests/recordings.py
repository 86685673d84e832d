"""Paths of the real recordings: beside the project, or in RAILSIGHT_DATA. Tests that need one skip without it."""

import os
import shutil
from pathlib import Path

import pytest

DATA = Path(os.environ.get("RAILSIGHT_DATA", Path(__file__).parents[2] / "shared" / "data"))
FLAPPER = DATA / "timeseries" / "clos-100g-flapper"


def field_report(case: str) -> Path:
    """Return the folder of a field report, such as `host/01-xid-mig`; skip the test where it is absent."""
    folder = DATA / "field" / case
    if not folder.exists():
        pytest.skip(f"no recording at {folder}")
    return folder


def linked_tree(recorded: Path, root: Path) -> Path:
    """Copy the tree of a host; a recording that was stored without links has their targets as texts."""
    shutil.copytree(recorded, root, symlinks=True)
    for path in [root, *root.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    for path in [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]:
        text = path.read_text()
        path.chmod(0o644)
        if text.startswith("../") and "\n" not in text:
            path.unlink()
            path.symlink_to(text)
    return root
