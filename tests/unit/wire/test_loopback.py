"""Tests the decision which addresses are on this machine."""

import pytest

from streams.wire.login_settings import is_loopback, remote_addresses


@pytest.mark.parametrize(
    "address", ["127.0.0.1:9092", "127.0.0.1", " 127.8.8.8:1 ", "localhost:9092", "localhost", "[::1]:9092"]
)
def test_loopback(address: str) -> None:
    """Addresses of 127.0.0.0/8, ::1 in brackets, and the name localhost; the port is optional."""
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1:9092", "kafka:9092", "0.0.0.0:9092", "[::]:9092", "::1:9092", "127.1:9092", "2130706433:1", "",
     "localhost.example.com:1", "127.0.0.1.example.com:1", "127.0.0.1:1@kafka:9092", "kafka://127.0.0.1:9092"],
)  # fmt: skip
def test_everything_else_is_remote(address: str) -> None:
    """An address that is not certain to be on this machine is remote, also one that a client would read otherwise."""
    assert not is_loopback(address)


def test_remote_addresses_of_several() -> None:
    """One remote address among those of loopback is found."""
    assert remote_addresses("127.0.0.1:1, kafka:9092,[::1]:2") == ("kafka:9092",)
