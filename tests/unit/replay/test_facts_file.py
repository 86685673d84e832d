"""Tests that the facts of `backtest --facts FILE` reach the detectors."""

from pathlib import Path

from streams.config.settings import Settings
from streams.fabric.inventory import write_folder
from streams.replay import backtest
from streams.replay.backtest import Recording
from streams.replay.score import read_findings
from streams.wire import codec
from streams.wire.models import Condition, Facts, Samples
from tests.worlds.facts_world import FactsWorld
from tests.worlds.small_fabric import inventory


def test_cabling_is_checked_from_a_file_of_facts(tmp_path: Path) -> None:
    """With samples as CSV and facts as JSON lines, the swap of both links is found, and no row is rejected."""
    world = FactsWorld(swapped={("p1-l0/d1", "p1-l0/d2"): [(100, 2000)]})
    messages = [*world.rounds(900), *world.other_messages(900)]
    rows = ["time,device,port,metric,index,value"]
    for one in messages:
        if isinstance(one, Samples):
            rows += [f"{one.sampled_at_ns},{one.device},{port},oper_up,,1" for port in one.row]
    (tmp_path / "samples.csv").write_text("\n".join(rows))
    facts = [codec.to_json(one).decode() for one in messages if isinstance(one, Facts)]
    (tmp_path / "facts.jsonl").write_text("\n".join(facts))
    write_folder(inventory(), tmp_path / "inventory")
    source = Recording((tmp_path / "samples.csv",), (), tmp_path / "facts.jsonl", None, None, tmp_path / "inventory")
    summary = backtest.run(source, Settings(), tmp_path / "out.jsonl")
    assert summary.rejected == ()
    found = read_findings(tmp_path / "out.jsonl")
    miscabled = {one.id: one for one in found if one.condition is Condition.LINK_MISCABLED}
    assert len(miscabled) == 2
    assert any("are swapped" in one.summary for one in miscabled.values())
