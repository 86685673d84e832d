"""Tests that each path of a gNMI profile is a path of a published model, from the cached list of their addresses."""

from tests.yang.profile_paths import PAGE, UNMODELLED, addresses, cached, missing, page, used


def test_no_profile_has_a_path_that_no_model_has() -> None:
    """A new path needs an address: `python -m tests.yang.profile_paths --yang NAME=FOLDER --write` looks it up."""
    assert missing(cached()) == []


def test_the_cache_has_the_paths_in_use_and_no_others_each_with_its_file_and_revision() -> None:
    """A path that a profile has no longer would stay for ever."""
    assert cached().keys() <= used().keys()
    assert all(address.file.endswith(".yang") and address.revision for address in cached().values())


def test_a_path_without_a_model_is_found() -> None:
    """The check would find a misspelt leaf: without the cache, all but the exceptions are missing."""
    lacking = missing({})
    assert any(line.startswith("openconfig: /interfaces/interface/state/counters/in-octets") for line in lacking)
    assert {line.partition(":")[0] for line in lacking}.isdisjoint({"sonic", "huawei", "nvidia", "sonic-mgmt"})
    assert UNMODELLED.keys() <= {name for names in used().values() for name in names}


def test_a_placeholder_in_a_step_matches_a_models_step_and_a_container_its_leaves() -> None:
    """`in-pfc{lane}-packets` is found by `in-pfc3-packets`, and a subscribed container by a leaf in it."""
    known = [
        (("interfaces", "interface", "ethernet", "state", "counters", "in-pfc3-packets"), next(iter(cached().values())))
    ]
    found = {"/".join(path) for path in addresses(known)}
    assert "interfaces/interface/ethernet/state/counters/in-pfc{lane}-packets" in found
    assert "interfaces/interface/ethernet/state/counters" in found


def test_the_page_of_the_addresses_is_up_to_date() -> None:
    """Made by `python -m tests.yang.profile_paths --write`."""
    assert PAGE.read_text("utf-8") == page(cached())
