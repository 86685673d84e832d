"""What settings of notifying are refused."""

import pytest
from pydantic import ValidationError

from tests.fixtures.notify_examples import params


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hold": 3}, "Extra inputs are not permitted"),
        ({"alertmanagers": ["ftp://x"]}, "starts with http"),
        ({"alertmanagers": ["http://u:p@x"]}, "credentials do not belong"),
        ({"alertmanagers": []}, "at least 1 item"),
        ({"username": "u"}, "username and password go together"),
        ({"username": "u", "password": "p", "token": "t"}, "not both"),
        ({"key_file": "k"}, "needs a cert_file"),
        ({"resend_s": 60, "expire_s": 100}, "at least 3 x resend_s"),
        ({"hold_s": -1}, "greater than or equal to 0"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(settings: dict[str, object], reason: str) -> None:
    """Each is refused with a reason that a person understands."""
    with pytest.raises(ValidationError, match=reason):
        params(**settings)


def test_a_secret_is_not_in_the_settings_text() -> None:
    """Printing the settings prints no password."""
    assert "hunter2" not in repr(params(username="u", password="hunter2"))


def test_an_address_may_end_in_a_slash() -> None:
    """The path of the API is put behind either form."""
    assert params(alertmanagers=["http://x:9093/am/"]).alertmanagers == ("http://x:9093/am",)
