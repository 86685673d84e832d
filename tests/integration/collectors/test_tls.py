"""Tests the collector's TLS: the certificates that it trusts, and its own."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from streams.wire.models import CollectorStatus, Samples
from tests.integration.collectors.fabric import running


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Return a self-signed certificate for loopback, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / f"{name}.pem", folder / f"{name}.key"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_device_is_read_only_if_its_certificate_is_trusted(tmp_path: Path, trusted: bool) -> None:
    """With the right authority the device is read; with another it is unreachable, with the reason."""
    cert, key = certificate(tmp_path, "device")
    other, _ = certificate(tmp_path, "other")
    server = grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())])
    async with running(tls=server, ca_file=cert if trusted else other, username="u", password="p") as now:
        if trusted:
            await now.published.until(lambda: all(now.published.of(Samples, name) for name in now.world.switches))
        else:
            await now.published.until(
                lambda: bool(now.metrics.value("reconnects")) and bool(now.published.of(CollectorStatus))
            )
            assert not now.published.of(Samples)
            assert all(status.error and not status.reachable for status in now.published.of(CollectorStatus))


@pytest.mark.parametrize("shows_itself", [True, False])
async def test_a_device_that_requires_a_certificate_receives_ours(tmp_path: Path, shows_itself: bool) -> None:
    """Mutual TLS: without the client certificate the device refuses the connection."""
    cert, key = certificate(tmp_path, "device")
    own, own_key = certificate(tmp_path, "collector")
    server = grpc.ssl_server_credentials(
        [(key.read_bytes(), cert.read_bytes())], root_certificates=own.read_bytes(), require_client_auth=True
    )
    shown: dict[str, Any] = {"cert_file": own, "key_file": own_key} if shows_itself else {}
    async with running(tls=server, ca_file=cert, **shown) as now:
        if shows_itself:
            await now.published.until(lambda: bool(now.published.of(Samples)))
        else:
            await now.published.until(lambda: now.metrics.value("reconnects") >= len(now.world.switches))
            assert not now.published.of(Samples)
