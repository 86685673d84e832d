"""The users of the embedded broker: one for each part of railsight, with a password of its own and least privileges.

Passwords are made at the first start, in files that only the owner of the data can read; the brokers get the users and
ACLs at each start, so that a new part, or one with other topics, has them after an upgrade.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streams.config.kafka import USER_PREFIX, KafkaSettings
from streams.embedded.certificates import server_certificate
from streams.embedded.directories import refusing_disk_errors, write_private
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams, Security
from streams.embedded.passwords import made_password
from streams.runtime.acl import EVERYBODY, compare, derive
from streams.runtime.acl_admin import open_access_admin
from streams.runtime.principals import principals
from streams.wire.access import READER, Access

_LOGINS = "logins"
KCAT = "kcat.conf"


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """The login of clients to the broker of a data folder."""

    data: Path
    ca: Path | None

    @property
    def folder(self) -> Path:
        """The folder of the passwords, one file a part."""
        return self.data / _LOGINS

    @property
    def kcat(self) -> Path:
        """The file with kcat's settings for the user `railsight-reader`, of the option -F."""
        return self.data / KCAT

    def settings(self) -> dict[str, str | bool]:
        """Return the settings of `[kafka]` for clients."""
        tls: dict[str, str | bool] = {} if self.ca is None else {"tls": True, "ca_file": str(self.ca)}
        return {"sasl_mechanism": "SCRAM-SHA-512", "login_folder": str(self.folder), **tls}


def secure(params: KafkaParams, data: Path) -> tuple[Security | None, BrokerLogin | None]:
    """Return how the brokers of a data folder identify clients, and how clients log in; None without users."""
    if params.security == "none":
        return None, None
    certificate = ca = None
    with refusing_disk_errors(data, "data folder"):
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if params.security == "tls":
            certificate, ca = server_certificate(data, dt.datetime.now(dt.UTC))
        login = BrokerLogin(data, ca)
        login.folder.mkdir(exist_ok=True, mode=0o700)
        reader = {f"{USER_PREFIX}{READER}": made_password(login.folder / READER)}
        return Security(made_password(data / "broker-password"), certificate, plain_users=reader), login


async def create_users(kafka: EmbeddedKafka, login: BrokerLogin, needs: Mapping[str, Access]) -> None:
    """Create the users and ACLs of all parts, and write the settings of kcat; `needs` is what the parts do."""
    login.folder.mkdir(exist_ok=True, mode=0o700)
    passwords = {f"{USER_PREFIX}{part}": made_password(login.folder / part) for part in needs}
    acls = derive(needs, principals(KafkaSettings(), needs))
    async with open_access_admin(kafka.client_options()) as admin:
        await admin.set_passwords(passwords)
        difference = compare(acls, await admin.acls())
        former = [acl for acl in (*difference.too_wide, *difference.denied) if acl.principal != EVERYBODY]
        if former:
            await admin.delete(former)
        if difference.missing:
            await admin.create(difference.missing)
            await admin.until_applied(acls)
    write_private(login.kcat, _kcat(kafka.bootstrap, login, passwords[f"{USER_PREFIX}{READER}"]))


def _kcat(bootstrap: str, login: BrokerLogin, password: str) -> str:
    lines = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT" if login.ca is None else "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": f"{USER_PREFIX}{READER}",
        "sasl.password": password,
        **({} if login.ca is None else {"ssl.ca.location": str(login.ca)}),
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())
