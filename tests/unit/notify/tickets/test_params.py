"""Tests which settings of tickets are refused."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from streams.config.settings import load
from streams.notify.tickets.params import TicketParams
from streams.wire.errors import Misconfigured

URL = "https://desk.example.net/hooks"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"url": "ftp://x"}, "needs http:// or https://"),
        ({"url": "desk.example.net"}, "needs http:// or https://"),
        ({"url": "https://u:p@x/"}, "must not contain credentials"),
        ({"url": "https://x/?token=1"}, "no query"),
        ({"url": "http://desk.example.net", "token_file": "t"}, "a token needs https://"),
        ({"url": "http://localhost.example.net", "token_file": "t"}, "a token needs https://"),
        ({"url": "http://[2001:db8::1]:80", "token_file": "t"}, "a token needs https://"),
        ({"url": URL, "username": "u"}, "username needs token_file"),
        ({"url": URL, "username": "a:b", "token_file": "t"}, "username"),
        ({"url": URL, "kind": "jira"}, "belong together"),
        ({"url": URL, "jira": {"project": "OPS"}}, "belong together"),
        ({"url": URL, "kind": "jira", "jira": {"project": 'X" OR 1'}}, "project"),
        ({"url": URL, "kind": "jira", "jira": {"project": "OPS", "labels": ["a b"]}}, "no blanks"),
        ({"url": URL, "token": "hunter2"}, "Extra inputs"),
        ({}, "Field required"),
    ],
)
def test_invalid_settings_are_refused_by_name(settings: dict[str, Any], reason: str) -> None:
    """Each error names the reason."""
    with pytest.raises(ValidationError, match=reason):
        TicketParams.model_validate(settings)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/desk/", "http://[::1]/desk", "http://localhost:1", URL])
def test_a_token_may_be_sent_to_this_machine_or_encrypted(url: str) -> None:
    """Loopback needs no TLS; a final slash is dropped."""
    params = TicketParams.model_validate({"url": url, "token_file": "t"})
    assert params.url == url.rstrip("/")


def test_a_configuration_without_tickets_has_none(tmp_path: Path) -> None:
    """The section is optional; in it, the URL is required, and a token in the file is refused."""
    assert load(environ={}).tickets is None
    path = tmp_path / "railsight.toml"
    path.write_text('[tickets]\ntoken = "hunter2"\n')
    with pytest.raises(Misconfigured) as caught:
        load(path, environ={})
    lines = sorted(str(caught.value).splitlines())
    assert lines[0] == f"tickets.token: unknown setting (in {path}); did you mean token_file?"
    assert lines[1].startswith("tickets.url: required and not set")
    assert "hunter2" not in str(caught.value)
