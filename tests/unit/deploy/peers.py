"""Programs of others that check our configuration: where one is missing the test skips, and fails in CI."""

import os
import shutil
import subprocess

import pytest


def program(*names: str) -> str:
    """The path of the first of these that is installed."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        said = f"{names[0]} is not installed (make peers)"
        if os.environ.get("CI") == "true":
            pytest.fail(said)
        pytest.skip(said)
    return found


def output_of(*command: str) -> str:
    """What a command prints; a failure of it is one of the test, with all it said."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
