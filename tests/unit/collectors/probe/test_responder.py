"""Tests the responder against a hostile peer: garbage, floods, forged sources, amplification and reflection."""

import random

import pytest

from collectors.probe.packet import LENGTH, MAGIC, REQUESTS, Kind, Packet, decode, encode
from collectors.probe.params import Params
from collectors.probe.responder import Responder
from lab.constants import params_of, with_constants

PEER = ("10.1.0.1", 20_001)
KEY = b"0123456789abcdef"


def responder(key: bytes = b"", **settings: float) -> Responder:
    return Responder(params_of(Params, settings), frozenset({PEER[0], "10.1.0.3"}), b"\1\2\3\4", key, 0.0)


def probe(sequence: int = 0, flow: int = 7, kind: Kind = Kind.PROBE, *, ttl: int = 0, port: int = 0) -> Packet:
    return Packet(kind, 99, flow, sequence, ttl, number=port)


def test_a_probe_is_answered_with_its_count_and_both_times() -> None:
    """Each flow of each epoch has its own count."""
    own = responder()
    counts = []
    for packet in (probe(0), probe(1), probe(0, flow=8), probe(2), probe(0)._replace(epoch=5)):
        answer = own.answer(encode(packet), PEER, 100, 200, 3, 0.0)
        assert answer is not None and answer.to == PEER and answer.ttl == 0
        reply = decode(answer.data)
        assert reply is not None
        assert (reply.kind, reply.received_ns, reply.replied_ns, reply.value) == (Kind.REPLY, 100, 200, 3)
        assert (reply.epoch, reply.flow, reply.sequence, reply.mark) == (*packet[1:4], b"\1\2\3\4")
        counts.append(reply.number)
    assert counts == [1, 2, 1, 3, 1]


@pytest.mark.parametrize("kind", sorted(REQUESTS))
def test_no_answer_is_longer_than_its_request_or_goes_elsewhere(kind: Kind) -> None:
    """One packet of the same length at most, to the address of the request: nothing is amplified."""
    own = responder()
    answer = own.answer(encode(probe(kind=kind, ttl=3, port=20_002)), PEER, 1, 2, 0, 0.0)
    assert answer is not None
    assert len(answer.data) == LENGTH and answer.to[0] == PEER[0]
    assert decode(answer.data).kind not in REQUESTS  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", sorted(set(Kind) - REQUESTS))
def test_no_answer_is_answered(kind: Kind) -> None:
    """Two responders do not answer each other for ever."""
    own = responder()
    assert own.answer(encode(probe(kind=kind)), PEER, 1, 2, 0, 0.0) is None
    assert own.refused == {"no request": 1}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (("10.9.9.9", 20_001), "unknown source"),
        (("10.1.0.1", 20_000), "port of a service"),
        (("10.1.0.1", 53), "port of a service"),
    ],
)
def test_others_than_probers_of_the_inventory_get_nothing(source: tuple[str, int], reason: str) -> None:
    """A forged source address makes the responder send nothing to a victim outside, or to a service."""
    own = responder()
    assert own.answer(encode(probe()), source, 1, 2, 0, 0.0) is None
    assert own.refused == {reason: 1}


@pytest.mark.parametrize("port", [20_000, 80, 0, 70_000])
def test_a_trace_back_goes_to_no_other_service(port: int) -> None:
    """Its target port may be none of a service, nor that of a responder."""
    own = responder()
    assert own.answer(encode(probe(kind=Kind.TRACE_BACK, ttl=2, port=port)), PEER, 1, 2, 0, 0.0) is None
    assert own.refused == {"malformed": 1}


def test_a_trace_back_has_the_ttl_and_the_port_of_the_request() -> None:
    """The hop that discards it is reported to the port that requested it."""
    own = responder()
    back = own.answer(encode(probe(kind=Kind.TRACE_BACK, ttl=2, port=20_005)), ("10.1.0.1", 40_000), 1, 2, 0, 0.0)
    assert back is not None and (back.to, back.ttl) == (("10.1.0.1", 20_005), 2)
    hop = own.hop(back.data, "10.1.0.1", b"\x0a\x65\0\1", 0.0)
    assert hop is not None and hop.to == ("10.1.0.1", 40_000)
    assert decode(hop.data).mark == b"\x0a\x65\0\1"  # type: ignore[union-attr]
    assert own.hop(back.data, "10.9.9.9", b"\x0a\x65\0\1", 0.0) is None
    assert own.hop(b"", "10.1.0.1", b"\x0a\x65\0\1", 0.0) is None


def test_garbage_is_refused_and_raises_nothing() -> None:
    """Any bytes of any length."""
    own = responder(answers_per_s=1e6, answers_per_source_s=1e6)
    chance = random.Random(1)
    for _ in range(2000):
        data = bytearray(chance.randbytes(chance.choice((0, 1, LENGTH - 1, LENGTH, LENGTH, LENGTH + 1))))
        data[: len(MAGIC)] = MAGIC[: len(data)] if chance.random() < 0.5 else data[: len(MAGIC)]
        answer = own.answer(bytes(data), PEER, 1, 2, 0, 0.0)
        assert answer is None or (len(answer.data) == len(data) == LENGTH and answer.to[0] == PEER[0])


def test_a_flood_of_one_source_is_answered_at_its_rate_and_others_are_not_harmed() -> None:
    """Of 10,000 requests in a second those of the burst and the rate; another host has its own."""
    own = responder(answers_per_source_s=50, answers_per_s=1000)
    answered = sum(own.answer(encode(probe(n)), PEER, 1, 2, 0, n / 10_000) is not None for n in range(10_000))
    assert 100 <= answered <= 151
    assert own.answer(encode(probe()), ("10.1.0.3", 20_001), 1, 2, 0, 11.0) is not None


def test_a_flood_of_all_sources_is_answered_at_the_rate_of_all() -> None:
    """However many inventory hosts are forged."""
    sources = [f"10.2.{n // 250}.{n % 250}" for n in range(5000)]
    own = Responder(with_constants(Params, answers_per_s=300)(), frozenset(sources), b"\0\0\0\0", b"", 0.0)
    answered = sum(own.answer(encode(probe()), (one, 20_001), 1, 2, 0, 0.5) is not None for one in sources)
    assert answered == 300


def test_with_a_key_a_packet_without_its_tag_is_garbage() -> None:
    """A forged request is not answered, a changed one neither."""
    own = responder(KEY)
    assert own.answer(encode(probe()), PEER, 1, 2, 0, 0.0) is None
    changed = bytearray(encode(probe(), KEY))
    changed[20] ^= 1
    assert own.answer(bytes(changed), PEER, 1, 2, 0, 0.0) is None
    answer = own.answer(encode(probe(), KEY), PEER, 1, 2, 0, 0.0)
    assert answer is not None and decode(answer.data, KEY) is not None and decode(answer.data, b"x" * 16) is None
