"""Settings that the gNMI collector refuses before it connects."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from collectors.gnmi.params import Params, Target
from streams.wire.errors import Misconfigured

LEAF = Target(name="leaf1", address="127.0.0.1:57400")


def test_unknown_and_incomplete_settings_are_refused_by_name() -> None:
    """A misspelt key, a certificate without its key, a password without a user."""
    for wrong in ({"cadence": 5}, {"cert_file": "x", "tls": True}, {"password": "x"}, {"ca_file": "x"},
                  {"username": "u", "password": "x", "token": "t"}, {"token": "t", "token_file": "x"}):  # fmt: skip
        with pytest.raises(ValidationError):
            Params.model_validate(wrong)


def test_invalid_targets_are_refused_in_one_line(tmp_path: Path) -> None:
    """None at all, a duplicate, an invalid file, an address without a port."""
    for params, message in (
        (Params(), "no targets"),
        (Params(targets=(LEAF, LEAF)), "leaf1"),
        (Params(targets_file=tmp_path / "none"), "none"),
    ):
        with pytest.raises(Misconfigured, match=message):
            params.all_targets()
    path = tmp_path / "targets.json"
    path.write_text('[{"name":"leaf1","address":"nowhere"}]')
    with pytest.raises(Misconfigured, match=r"0\.address"):
        Params(targets_file=path).all_targets()
    path.write_text('[{"name":"leaf2","address":"127.0.0.1:1"}]')
    assert [target.name for target in Params(targets=(LEAF,), targets_file=path).all_targets()] == ["leaf1", "leaf2"]


def test_an_empty_list_of_targets_starts(tmp_path: Path) -> None:
    """A site without devices yet: the list or the file is there, and empty."""
    path = tmp_path / "targets.json"
    path.write_text("[]")
    assert Params(targets_file=path).all_targets() == Params(targets=()).all_targets() == ()


def test_a_password_in_clear_text_does_not_leave_the_machine_by_default() -> None:
    """It may on loopback; another address requires TLS, or the setting that allows it."""
    far = Target(name="leaf2", address="192.0.2.1:57400")
    login = {"username": "u", "password": "p"}
    assert Params.model_validate({"targets": [LEAF], **login}).all_targets()
    with pytest.raises(Misconfigured, match="password"):
        Params.model_validate({"targets": [far], **login}).all_targets()
    assert Params.model_validate({"targets": [far], "clear_text": True, **login}).all_targets()
    assert "p" not in repr(Params.model_validate({"targets": [LEAF], **login}).password)
