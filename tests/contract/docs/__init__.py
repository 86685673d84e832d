"""Holds the pages to the code, and makes the generated pages of the reference that need no server."""

from tests.contract import metrics_page
from tests.contract.docs import (
    commands_page,
    counters_page,
    detectors_table,
    life_cycle_table,
    operator_page,
    rooms_picture,
    settings_page,
    topics_page,
)

PAGES = (
    commands_page, counters_page, detectors_table, life_cycle_table, metrics_page, operator_page, rooms_picture,
    settings_page, topics_page,
)  # fmt: skip
"""Each has `PAGE`, the path of its page, and `page()`, the text."""
