"""The address of ClickHouse, its login, and its certificates."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.wire.errors import Misconfigured


@pytest.mark.parametrize("url", ["http://clickhouse:8123", "http://10.0.0.1:8123", "http://[2001:db8::1]:8123"])
def test_plain_http_is_refused_off_loopback(url: str) -> None:
    """The password and the data would be in clear text; a network that nothing else reaches is permitted by name."""
    with pytest.raises(ValidationError, match=r"is not on loopback: .*; use https://, or set plain_http = true"):
        StoreParams(url=url)
    assert StoreParams(url=url, plain_http=True).url == url
    assert StoreParams(url=url.replace("http:", "https:")).plain_http is False
    assert StoreParams(url="http://[::1]:8123/").plain_http is False


def test_certificates_need_https_and_files_that_exist(tmp_path: Path) -> None:
    """Each error names the setting."""
    with pytest.raises(ValidationError, match="need an url with https"):
        StoreParams(ca_file=tmp_path / "ca.pem")
    with pytest.raises(ValidationError, match="key_file needs a cert_file"):
        StoreParams(url="https://a", key_file=tmp_path / "key.pem")
    with pytest.raises(Misconfigured, match=r"store: cannot load the TLS files .*ca\.pem"):
        ClickHouse(StoreParams(url="https://127.0.0.1:1", ca_file=tmp_path / "ca.pem")).query("SELECT 1")


def test_the_password_is_read_from_its_file(tmp_path: Path) -> None:
    """As it is now; a missing file names its setting."""
    params = StoreParams(password_file=tmp_path / "password")
    with pytest.raises(Misconfigured, match=r"store\.password_file"):
        params.secret()
    for content in ("first\n", "second\n"):
        (tmp_path / "password").write_text(content)
        assert params.secret() == content.strip()
