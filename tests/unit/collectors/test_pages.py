"""The page of the shared settings and metrics is complete."""

from pathlib import Path
from typing import get_args

from collectors.core import metrics
from collectors.core.params import CollectorParams, PublisherParams, TargetParams

PAGE = Path(__file__).parents[3] / "docs/collectors/core.md"


def test_every_setting_and_every_self_metric_has_its_line() -> None:
    """Every setting and metric is on the page by its name, and the defaults are the code's."""
    page = PAGE.read_text()
    settings = [f"publisher.{name}" for name in PublisherParams.model_fields]
    settings += [name for name in (*CollectorParams.model_fields, *TargetParams.model_fields) if name != "publisher"]
    assert f"| `publisher.spool_bytes` | {PublisherParams().spool_bytes >> 30} GiB |" in page
    missing = [name for name in settings if f"\n| `{name}` |" not in page]
    missing += [name for name in (*get_args(metrics.Name), *get_args(metrics.Gauge)) if f"`{name}`" not in page]
    assert missing == []
