"""`python -m tests.contract.docs`: writes every generated page that needs no server."""

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

for made in (
    commands_page,
    counters_page,
    detectors_table,
    life_cycle_table,
    metrics_page,
    operator_page,
    rooms_picture,
    settings_page,
    topics_page,
):
    made.PAGE.write_text(made.page(), encoding="utf-8")
topics_page.ASYNCAPI.write_text(topics_page.asyncapi_text(), encoding="utf-8")
