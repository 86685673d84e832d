"""A server of a benchmark that does not start is named by its own reason."""

import sys

import pytest

from lab.bench.collector_costs import running
from streams.wire.errors import Retry

_FAILS = "import sys; print('a warning', file=sys.stderr); sys.exit('railsight: no Java on this machine')"


def test_the_error_alone_has_the_reason_why_a_server_does_not_start(capfd: pytest.CaptureFixture[str]) -> None:
    """The reason is no line of the benchmark's own output, which may be JSON or one clear error."""
    with pytest.raises(Retry, match=r"^no Java on this machine$"), running([sys.executable, "-c", _FAILS]):
        raise AssertionError
    assert capfd.readouterr() == ("", "")


def test_a_server_that_prints_its_address_is_ended_after_use() -> None:
    command = [sys.executable, "-c", "import time; print('127.0.0.1:1', flush=True); time.sleep(60)"]
    with running(command) as line:
        assert line == "127.0.0.1:1"
