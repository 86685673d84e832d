"""The ACLs that parts need, and their comparison with those of the brokers."""

import pytest

from streams.runtime.acl import Acl, Operation, Pattern, Permission, Resource, compare, derive
from streams.runtime.bindings import BINDINGS
from streams.wire.topics import CONTROLS, EVENTS, SAMPLES, Access

PERSIST = "User:railsight-persist"
NEEDED = derive({"persist": Access(reads=(EVENTS,), writes=(SAMPLES,), groups=("g",))}, {"persist": PERSIST})
READ_EVENTS = Acl(PERSIST, Resource.TOPIC, EVENTS.name, Operation.READ)


def test_a_part_gets_what_it_declares_and_nothing_else() -> None:
    """A topic to read, one to write, and its group."""
    assert [str(one) for one in NEEDED] == [
        f"{PERSIST} READ topic railsight.events.v1",
        f"{PERSIST} WRITE topic railsight.samples.v1",
        f"{PERSIST} READ group g",
    ]


def test_the_same_acls_differ_in_nothing() -> None:
    """ACLs of principals that are none of ours do not count."""
    other = Acl("User:grafana", Resource.TOPIC, "*", Operation.ALL)
    assert not compare(NEEDED, [*NEEDED, other])


@pytest.mark.parametrize(
    "wider",
    [
        Acl(PERSIST, Resource.TOPIC, "railsight.", Operation.READ, Pattern.PREFIXED),
        Acl(PERSIST, Resource.TOPIC, "*", Operation.READ),
        Acl(PERSIST, Resource.TOPIC, EVENTS.name, Operation.ALL),
        Acl("User:*", Resource.TOPIC, EVENTS.name, Operation.READ),
    ],
)
def test_a_wider_acl_is_too_wide_and_leaves_nothing_missing(wider: Acl) -> None:
    """It permits what is needed, and more."""
    difference = compare(NEEDED, [wider, *(one for one in NEEDED if one != READ_EVENTS)])
    assert (difference.missing, difference.too_wide) == ((), (wider,))


def test_missing_and_denied_acls_are_named() -> None:
    """A denial of everybody counts, one from a single host too; another topic's does not."""
    denial = Acl("User:*", Resource.TOPIC, EVENTS.name, Operation.ALL, permission=Permission.DENY, host="10.0.0.1")
    unrelated = Acl(PERSIST, Resource.TOPIC, CONTROLS.name, Operation.READ, permission=Permission.DENY)
    difference = compare(NEEDED, [denial, unrelated, *NEEDED[1:]])
    assert difference.missing == (READ_EVENTS,)
    assert difference.denied == (denial,)


def test_an_acl_from_one_host_is_not_enough() -> None:
    """A part may move to another host."""
    bound = Acl(PERSIST, Resource.TOPIC, EVENTS.name, Operation.READ, host="10.0.0.1")
    assert compare(NEEDED, [bound, *NEEDED[1:]]).missing == (READ_EVENTS,)


def test_no_stage_writes_what_people_and_automation_write() -> None:
    """Controls and results are evidence for `decide`, which come from elsewhere; it only removes ended controls."""
    for name, binding in BINDINGS.items():
        written = {topic.name for topic in binding.access("c").writes}
        assert "railsight.remediation-results.v1" not in written
        assert ("railsight.controls.v1" in written) is (name == "decide")
