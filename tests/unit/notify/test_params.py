"""Tests which settings of notifications are refused."""

import pytest
from pydantic import ValidationError

from tests.fixtures.notify_examples import params


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hold": 3}, "Extra inputs are not permitted"),
        ({"alertmanagers": ["ftp://x"]}, "needs http://"),
        ({"alertmanagers": ["http://u:p@x"]}, "must not contain credentials"),
        ({"alertmanagers": []}, "at least 1 item"),
        ({"username": "u"}, "must be set together"),
        ({"username": "u", "password": "p", "token": "t"}, "not both"),
        ({"key_file": "k"}, "key_file requires cert_file"),
        ({"hold_s": -1}, "greater than or equal to 0"),
    ],
)
def test_invalid_settings_are_refused_by_name(settings: dict[str, object], reason: str) -> None:
    """Each error names the reason."""
    with pytest.raises(ValidationError, match=reason):
        params(**settings)


def test_a_secret_is_not_in_the_repr() -> None:
    """The repr of the settings has no password."""
    assert "hunter2" not in repr(params(username="u", password="hunter2"))


def test_a_url_may_end_in_a_slash() -> None:
    """The path of the API is appended to either form."""
    assert params(alertmanagers=["http://x:9093/am/"]).alertmanagers == ("http://x:9093/am",)
