"""Every collector that reads the inventory refuses an invalid one in the same words."""

import asyncio
from pathlib import Path

import pytest
from pydantic import BaseModel

from collectors.core.context import CollectorContext
from collectors.core.spec import Spec
from collectors.ib.collector import SPEC as IB
from collectors.probe.collector import SPEC as PROBE
from collectors.syslog.collector import SPEC as SYSLOG
from lab.constants import params_of
from streams.wire.errors import Misconfigured
from tests.fakes.publisher import RecordingPublisher


async def _collect(spec: Spec, params: BaseModel) -> None:
    async with asyncio.timeout(60):
        await spec.collect(params, CollectorContext(RecordingPublisher(), "test"))


@pytest.mark.parametrize(
    ("spec", "settings"),
    [(PROBE, {"device": "h0"}), (SYSLOG, {"inputs": ["file:lines"]}), (IB, {"inputs": ["file:*.csv"]})],
    ids=["probe", "syslog", "ib"],
)
def test_an_invalid_inventory_is_refused_in_one_wording(
    spec: Spec, settings: dict[str, object], tmp_path: Path
) -> None:
    """With the collector, the folder and each error of it; an absent folder too."""
    (tmp_path / "devices.csv").write_text("name,kind\nleaf1,switch\n", "utf-8")
    for folder, error in (
        (tmp_path, "devices: no column tier"),
        (tmp_path / "absent", f"{tmp_path / 'absent'}: no such folder"),
    ):
        params = params_of(spec.Params, settings | {"inventory": folder})
        with pytest.raises(Misconfigured) as refused:
            asyncio.run(_collect(spec, params))
        assert str(refused.value).startswith(f"collect.{spec.name}: inventory {folder}: ")
        assert error in str(refused.value)
