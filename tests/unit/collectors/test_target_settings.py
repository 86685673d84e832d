"""A target of gNMI or SNMP may have settings of its own: login, cadence, TLS, which values are read."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from collectors.gnmi import collector as gnmi
from collectors.gnmi.params import Params as GnmiParams
from collectors.snmp import collector as snmp
from collectors.snmp.params import Params as SnmpParams
from streams.wire.errors import Misconfigured


def file(folder: Path, name: str, secret: str) -> str:
    path = folder / name
    path.write_text(f"{secret}\n")
    return str(path)


def snmp_params(*targets: dict[str, object], **given: object) -> SnmpParams:
    return SnmpParams.model_validate({"targets": targets} | given)


def test_snmp_targets_have_a_login_and_a_cadence_of_their_own(tmp_path: Path) -> None:
    """One inherits the collector's, one has another community, one is of version 3."""
    params = snmp_params(
        {"name": "a", "address": "10.0.0.1"},
        {"name": "b", "address": "10.0.0.2", "community_file": file(tmp_path, "b", "other"), "cadence_s": 60},
        {"name": "c", "address": "10.0.0.3", "version": "3", "username": "u", "privacy": "none",
         "auth_secret_file": file(tmp_path, "c", "a-long-secret")},
        community="public",
    )  # fmt: skip
    found = snmp.target_sessions(params)
    assert [found[name].login.community for name in "ab"] == ["public", "other"]
    assert (found["c"].login.user, found["c"].login.community, found["c"].login.level) == ("u", "", "authNoPriv")
    assert [found[name].params.cadence_s for name in "abc"] == [30, 60, 30]
    assert {path.name for path in params.files()} == {"b", "c"}


def test_a_wrong_setting_of_a_target_names_the_target(tmp_path: Path) -> None:
    """An inherited login of another version is none; a target without any is named."""
    with pytest.raises(Misconfigured, match=r"version 3 requires username \(target a\)"):
        snmp.target_sessions(snmp_params({"name": "a", "address": "h", "version": "3"}, community="public"))
    with pytest.raises(Misconfigured, match="target a: privacy requires auth"):
        snmp.target_sessions(snmp_params({"name": "a", "address": "h", "version": "3", "auth": "none"}))


@pytest.mark.parametrize("secret", ["community", "auth_secret", "privacy_secret"])
def test_a_list_of_targets_has_no_secret(secret: str) -> None:
    """It is committed and shared; the refusal names the setting and never the value."""
    with pytest.raises(ValidationError, match=f"set {secret}_file") as refused:
        snmp_params({"name": "a", "address": "h", secret: "s3cret"}, community="public")
    assert "s3cret" not in str(refused.value)


def test_gnmi_targets_have_a_login_tls_and_cadence_of_their_own(tmp_path: Path) -> None:
    """A password of its own replaces the collector's token; one without TLS would expose the password."""
    own = {"username": "u", "password_file": file(tmp_path, "p", "own"), "cadence_s": 1}
    targets = [{"name": "a", "address": "127.0.0.1:1"}, {"name": "b", "address": "127.0.0.2:1", **own}]
    found = gnmi.target_sessions(GnmiParams.model_validate({"targets": targets, "token": "t"}))
    assert [(one.secret, one.params.username, one.params.cadence_s) for one in found.values()] == [
        ("t", "", 10),
        ("own", "u", 1),
    ]
    exposed = {"targets": [{"name": "b", "address": "192.0.2.1:1", **own}]}
    with pytest.raises(Misconfigured, match="would cross the network to b"):
        gnmi.target_sessions(GnmiParams.model_validate(exposed))
