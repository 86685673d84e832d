"""Reads and changes the ACLs, quotas and SCRAM users of a cluster, for which aiokafka's admin client has no methods.

The embedded broker has one user per part of railsight, with least privileges. The first start makes the passwords, in
files that only the owner of the data can read. Each start sends users and ACLs to the brokers, so that a new part, or
a part with other topics, has them after an upgrade.
"""

import datetime as dt
import hashlib
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.admin import (
    CreateAclsRequest_v1,
    DeleteAclsRequest_v1,
    DescribeAclsRequest,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from streams.config.kafka import USER_PREFIX, KafkaSettings
from streams.embedded.certificates import server_certificate
from streams.embedded.directories import refusing_disk_errors, write_private
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams, Security
from streams.embedded.passwords import made_password
from streams.runtime.acl import (
    EVERYBODY,
    Acl,
    Operation,
    Pattern,
    Permission,
    Quota,
    Resource,
    compare,
    derive,
    derive_quotas,
    principals,
)
from streams.runtime.quota_requests import AlterQuotas, DescribeQuotas, quotas_of
from streams.wire.errors import Misconfigured, Retry
from streams.wire.retry import Backoff, retry
from streams.wire.topics import READER, Access

_OK, _SECURITY_DISABLED = 0, 54
_SHA_512 = 2
_ITERATIONS = 4096
"""Kafka's minimum and default; more iterations are useless because the passwords are random."""
_SALT_BYTES = 16
_SETTLE_S = 30.0
_POLL_S = 0.02


def _fields(acl: Acl) -> tuple[int | str, ...]:
    """Return the fields of an ACL in the order of the requests."""
    return acl.resource, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission


class _CreateAcls(Request[CreateAclsRequest_v1]):  # type: ignore[misc] # aiokafka is untyped
    """A request with several ACLs; in a request to delete them, each is an exact filter."""

    API_KEY = 30

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._acls = acls

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class([_fields(acl) for acl in self._acls])


class _DeleteAcls(Request[DeleteAclsRequest_v1]):  # type: ignore[misc] # aiokafka is untyped
    API_KEY = 31
    __init__ = _CreateAcls.__init__
    build = _CreateAcls.build


class _AlterUsersResponse(Response):  # type: ignore[misc] # aiokafka is untyped
    API_KEY = 51
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            CompactArray(
                ("user", CompactString("utf-8")),
                ("error_code", Int16),
                ("error_message", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _AlterUsersStruct(RequestStruct):  # type: ignore[misc] # aiokafka is untyped
    API_KEY = 51
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _AlterUsersResponse
    SCHEMA = Schema(
        ("deletions", CompactArray(("name", CompactString("utf-8")), ("mechanism", Int8), ("tags", TaggedFields))),
        (
            "upsertions",
            CompactArray(
                ("name", CompactString("utf-8")),
                ("mechanism", Int8),
                ("iterations", Int32),
                ("salt", CompactBytes),
                ("salted_password", CompactBytes),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _AlterUsers(Request[_AlterUsersStruct]):  # type: ignore[misc] # aiokafka is untyped
    """The request AlterUserScramCredentials."""

    API_KEY = 51

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def build(self, request_struct_class: Any) -> Any:
        rows: list[tuple[str, int, int, bytes, bytes, dict[int, bytes]]] = []
        for name, password in self._passwords.items():
            salt = os.urandom(_SALT_BYTES)
            salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
            rows.append((name, _SHA_512, _ITERATIONS, salt, salted, {}))
        return request_struct_class([], rows, {})


class AccessAdmin:
    """The access control of one cluster; use `open_access_admin`."""

    def __init__(self, admin: Any, bootstrap: str) -> None:
        self._admin = admin
        self._bootstrap = bootstrap

    async def acls(self, broker: int | None = None) -> list[Acl]:
        """Return all ACLs of this broker, or of any broker."""
        any_acl = DescribeAclsRequest(Resource.ANY, None, Pattern.ANY, None, None, Operation.ANY, Permission.ANY)
        answer = await self._send(any_acl, broker)
        self._check(answer.error_code, answer.error_message)
        return [
            Acl(principal, Resource(kind), name, Operation(operation), Pattern(pattern), Permission(permission), host)
            for kind, name, pattern, entries in answer.resources
            for principal, host, operation, permission in entries
        ]

    async def create(self, acls: Iterable[Acl]) -> None:
        """Create these ACLs; existing ones stay."""
        answer = await self._send(_CreateAcls(list(acls)))
        for code, message in answer.creation_responses:
            self._check(code, message)

    async def delete(self, acls: Iterable[Acl]) -> None:
        """Delete exactly these ACLs."""
        answer = await self._send(_DeleteAcls(list(acls)))
        for code, message, _ in answer.filter_responses:
            self._check(code, message)

    async def quotas(self) -> list[Quota]:
        """Return the quotas of all named users."""
        answer = await self._send(DescribeQuotas())
        self._check(answer.error_code, answer.error_message)
        return quotas_of(answer)

    async def set_quotas(self, quotas: Iterable[Quota]) -> None:
        """Set these quotas of users; others stay."""
        answer = await self._send(AlterQuotas(list(quotas)))
        for code, message, _ in answer.entries:
            self._check(code, message)

    async def set_passwords(self, passwords: Mapping[str, str]) -> None:
        """Create SCRAM-SHA-512 users, or change their passwords."""
        answer = await self._send(_AlterUsers(passwords))
        for user, code, message, _ in answer.results:
            self._check(code, f"{user}: {message}")

    async def until_applied(self, acls: Iterable[Acl]) -> None:
        """Wait until every broker applies these ACLs, because brokers apply a change with a delay."""
        wanted = set(acls)
        brokers = [broker.nodeId for broker in self._admin._client.cluster.brokers()]  # noqa: SLF001 — see _send

        async def check(_: int) -> None:
            for broker in brokers:
                if not wanted <= set(await self.acls(broker)):
                    raise Retry("the ACLs are not applied yet")

        await retry(check, Retry, Backoff.constant(_POLL_S), within_s=_SETTLE_S)

    async def _send(self, request: Any, broker: int | None = None) -> Any:
        try:
            return await self._admin._send_request(request, broker)  # noqa: SLF001 — aiokafka has no public way
        except (TimeoutError, KafkaError, OSError) as error:
            raise Retry(f"Kafka at {self._bootstrap}: {error or type(error).__name__}") from error

    def _check(self, code: int, message: str | None) -> None:
        if code == _SECURITY_DISABLED:
            raise Misconfigured(
                f"Kafka at {self._bootstrap} has no authorizer, so that every client may do everything; set"
                " authorizer.class.name of the brokers"
            )
        if code != _OK:
            raise Misconfigured(f"Kafka at {self._bootstrap}: {for_code(code)(message or '')}")


@asynccontextmanager
async def open_access_admin(options: Mapping[str, Any]) -> AsyncIterator[AccessAdmin]:
    """Yield the access control of the cluster of these client options; raises Retry if no broker answers."""
    bootstrap = ",".join(options["bootstrap_servers"])
    client = AIOKafkaAdminClient(**options)
    try:
        try:
            await client.start()
        except (KafkaError, OSError) as error:
            raise Retry(str(error)) from error
        yield AccessAdmin(client, bootstrap)
    finally:
        with suppress(KafkaError, OSError):
            await client.close()


_LOGINS = "logins"
KCAT = "kcat.conf"


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """The login of clients to the broker of a data folder."""

    data: Path
    ca: Path | None

    @property
    def folder(self) -> Path:
        """The folder with one password file per part."""
        return self.data / _LOGINS

    @property
    def kcat(self) -> Path:
        """The file with kcat's settings for the user `railsight-reader`, for the option -F."""
        return self.data / KCAT

    def settings(self) -> dict[str, str | bool]:
        """Return the settings of `[kafka]` for clients."""
        tls: dict[str, str | bool] = {} if self.ca is None else {"tls": True, "ca_file": str(self.ca)}
        return {"sasl_mechanism": "SCRAM-SHA-512", "login_folder": str(self.folder), **tls}


def secure(params: KafkaParams, data: Path) -> tuple[Security | None, BrokerLogin | None]:
    """Return the brokers' security and the clients' login for a data folder; None and None without users."""
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
    """Create the users and ACLs of all parts, and write kcat's settings; `needs` has the access of each part."""
    login.folder.mkdir(exist_ok=True, mode=0o700)
    passwords = {f"{USER_PREFIX}{part}": made_password(login.folder / part) for part in needs}
    own = principals(KafkaSettings(), needs)
    acls = derive(needs, own)
    async with open_access_admin(kafka.client_options()) as admin:
        await admin.set_passwords(passwords)
        await admin.set_quotas(derive_quotas(own))
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
