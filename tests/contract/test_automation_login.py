"""The automation logs in to Kafka as the pipeline does, and imports nothing of it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["tls_files.py", "kafka_refusals.py", "kafka_login.py"])
def test_the_automations_copy_is_current(name: str) -> None:
    """Only the package of the imports differs; copy the file of streams/wire again if this fails."""
    original = (ROOT / "streams/wire" / name).read_text()
    copy = (ROOT / "deploy/automation/railsight_automation" / name).read_text()
    assert copy == original.replace("from streams.wire.", "from railsight_automation.")
    assert "streams.wire" not in copy
