"""deploy/examples: every collector has settings to begin with, and they are ones that it takes."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from collectors.core.params import CollectorParams
from streams.cli.collect import settings_of_collector
from streams.cli.options import collector_params
from streams.config.settings import load

FOLDER = Path(__file__).parents[3] / "deploy/examples"
EXAMPLES = {kind: FOLDER / ("sim.toml" if kind == "sim" else "collectors.toml") for kind in collector_params()}


def read(kind: str) -> BaseModel:
    """The settings of a kind, as `railsight collect KIND --config` reads them."""
    return settings_of_collector(kind, collector_params()[kind], EXAMPLES[kind], {}).collectors[kind]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_example_reports_more_than_the_defaults(kind: str) -> None:
    """Each section has settings; an unknown key would be refused by name."""
    assert read(kind).model_fields_set


@pytest.mark.parametrize("kind", sorted(set(EXAMPLES) - {"sim"}))
def test_what_is_gone_once_read_has_a_spool_within_a_bound(kind: str) -> None:
    """A copy of the example loses nothing in a Kafka outage; its disk limit is in the file."""
    params = read(kind)
    assert isinstance(params, CollectorParams)
    assert (params.publisher.spool is not None) is params.supports_spool
    assert not params.supports_spool or "spool_bytes" in params.publisher.model_fields_set


@pytest.mark.parametrize("path", sorted(set(EXAMPLES.values())))
def test_a_whole_file_is_one_that_railsight_reads(path: Path) -> None:
    """With all of its collectors at once."""
    settings = load(path, collector_params(), environ={})
    of_sim = {"sim", "gnmi", "nic", "host"}
    expected = of_sim if path.name == "sim.toml" else {kind for kind, its in EXAMPLES.items() if its == path}
    assert set(settings.collectors) == expected


def test_ports_go_by_one_name_in_what_the_nic_collector_and_the_host_agent_say() -> None:
    """They want the same values for what both have."""
    nic, host = read("nic"), read("host")
    for name in ("device", "port_name", "fabric", "management", "exclude"):
        assert getattr(nic, name) == getattr(host, name)


@pytest.mark.parametrize("kind", ["webhook", "jira"])
def test_the_examples_of_tickets_are_ones_that_railsight_reads(kind: str) -> None:
    """Each has a token in a file of its own, and is sent encrypted."""
    tickets = load(FOLDER / f"tickets-{kind}.toml", environ={}).tickets
    assert tickets is not None and tickets.kind == kind
    assert tickets.token_file is not None and tickets.url.startswith("https://")
