"""Forged engine ids take no slot of an authenticated engine, and their number is bounded."""

from collectors.snmp.traps import EngineSlots


def test_forged_engines_replace_each_other() -> None:
    """After any number of them a real engine is added, and stays once it was authenticated."""
    slots = EngineSlots(4)
    evicted = [slots.add("sw1", b"forged%d" % number) for number in range(1000)]
    assert all(is_new for is_new, _ in evicted)
    assert sum(engine is not None for _, engine in evicted) == 996
    assert slots.add("sw1", b"real") == (True, b"forged996")
    slots.verify("sw1", b"real")
    for number in range(1000, 1100):
        slots.add("sw1", b"forged%d" % number)
    assert slots.add("sw1", b"real") == (False, None)


def test_of_authenticated_engines_the_one_that_is_longest_silent_is_replaced() -> None:
    """A chassis that changed its supervisors is received again."""
    slots = EngineSlots(2)
    for engine in (b"a", b"b", b"a"):
        slots.add("sw1", engine)
        slots.verify("sw1", engine)
    assert slots.add("sw1", b"c") == (True, b"b")


def test_the_keys_of_an_engine_of_two_devices_are_retained() -> None:
    """An engine that another device has is neither new nor removed."""
    slots = EngineSlots(1)
    assert slots.add("sw1", b"a") == (True, None)
    assert slots.add("sw2", b"a") == (False, None)
    assert slots.add("sw1", b"b") == (True, None)
    assert slots.add("sw2", b"c") == (True, b"a")
