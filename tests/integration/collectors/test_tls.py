"""Tests the collector's TLS: the certificates that it trusts, and its own."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from streams.wire.models import CollectorStatus, Samples
from tests.fixtures.certificates import certificate
from tests.integration.collectors.fabric import running


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
