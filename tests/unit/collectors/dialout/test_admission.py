"""Tests which device a connection is, and that unknown ones are none."""

import pytest

from collectors.dialout.params import Params, Peer, Target, candidates, named, peer_of
from streams.wire.errors import Misconfigured

ONE = Target(name="leaf1", addresses=("192.0.2.1",))
TWO = Target(name="leaf2", node="leaf2-re0", addresses=("192.0.2.1", "2001:db8::2"))
BY_NAME = Target(name="leaf3", certificate="leaf3.example")


@pytest.mark.parametrize(("address", "expected"), [
    ("ipv4:192.0.2.1:5000", "192.0.2.1"), ("ipv6:%5B2001:db8::2%5D:5000", "2001:db8::2"),
    ("ipv6:%5B::ffff:192.0.2.1%5D:5000", "192.0.2.1"), ("unix:/tmp/socket", ""), ("", ""),
])  # fmt: skip
def test_the_address_of_a_peer(address: str, expected: str) -> None:
    """As gRPC has it; one that is no address is empty, and recognized as no target."""
    assert peer_of(address, {}).address == expected


def test_the_names_of_a_certificate() -> None:
    """Its common name and its alternative names."""
    found = peer_of("ipv4:192.0.2.1:1", {"x509_common_name": [b"a"], "x509_subject_alternative_name": [b"b", b"c"]})
    assert found.names == {"a", "b", "c"}


def test_without_certificates_the_address_decides() -> None:
    """A target without addresses is never recognized by one."""
    targets = (ONE, TWO, BY_NAME)
    for address, expected in (("192.0.2.1", (ONE, TWO)), ("2001:db8::2", (TWO,)), ("192.0.2.9", ()), ("", ())):
        assert candidates(targets, Peer(address, frozenset({"leaf3.example"})), by_certificate=False) == expected


def test_with_certificates_both_decide() -> None:
    """The name must be in the certificate; addresses are one more condition."""
    targets = (ONE, BY_NAME)
    for address, names, expected in (
        ("192.0.2.9", {"leaf3.example"}, (BY_NAME,)), ("192.0.2.9", {"leaf1"}, ()), ("192.0.2.1", {"leaf1"}, (ONE,)),
        ("192.0.2.1", {"leaf3"}, ()), ("192.0.2.1", set(), ()),
    ):  # fmt: skip
        assert candidates(targets, Peer(address, frozenset(names)), by_certificate=True) == expected


def test_a_device_that_names_itself_another_is_none() -> None:
    """Between several the name selects; without one only a single device is certain."""
    assert named((ONE, TWO), "leaf2-re0") is TWO
    assert named((ONE, TWO), "") is None
    assert named((ONE,), "") is ONE
    assert named((ONE,), "leaf2") is None


@pytest.mark.parametrize(("settings", "why"), [
    ({"listen": "0.0.0.0:57500"}, "without TLS: set cert_file"), ({"cert_file": "a"}, "set together"),
    ({"client_ca_file": "a"}, "requires cert_file"),
    ({"targets": [{"name": "a", "addresses": ["leaf1"]}]}, "names are not resolved"),
])  # fmt: skip
def test_settings_that_admit_too_much_are_refused(settings: dict[str, object], why: str) -> None:
    """Each with the setting to change."""
    with pytest.raises(ValueError, match=why):
        Params.model_validate(settings)


@pytest.mark.parametrize(("targets", "why"), [
    ([{"name": "a"}], "recognized by its addresses"),
    ([{"name": "a", "addresses": ["::1"]}] * 2, "duplicate targets: a"),
])  # fmt: skip
def test_targets_that_nothing_identifies_are_refused(targets: list[dict[str, object]], why: str) -> None:
    """At the start, not at the first connection."""
    with pytest.raises(Misconfigured, match=why):
        Params.model_validate({"targets": targets}).all_targets()


def test_no_targets_are_refused_but_an_empty_list() -> None:
    with pytest.raises(Misconfigured, match="no targets"):
        Params().all_targets()
    assert Params(targets=()).all_targets() == {}
