"""The automation logs in to Kafka and serves its health as the pipeline does, and imports nothing of it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "path", ["wire/tls_files.py", "wire/kafka_refusals.py", "wire/kafka_login.py", "health/status_http.py"]
)
def test_the_automations_copy_is_current(path: str) -> None:
    """Only the package of the imports differs; copy the file of streams again if this fails."""
    original = ROOT / "streams" / path
    copy = (ROOT / "deploy/automation/railsight_automation" / original.name).read_text()
    assert copy == original.read_text().replace("from streams.wire.", "from railsight_automation.")
    assert "from streams" not in copy
