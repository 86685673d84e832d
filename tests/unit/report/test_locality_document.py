"""The OpenAPI document of the locality: links name operations that exist, with parameters that these have."""

import time

from streams.config.kafka import KafkaSettings
from streams.config.settings import Settings
from streams.locality.params import LocalityParams
from streams.report.locality.service import LocalityService
from streams.report.top.state import TopState
from streams.report.web.answers import Answers
from streams.report.web.server import application


def test_links_name_operations_and_parameters_that_exist() -> None:
    """A client that follows them, such as a generated one, calls what is there."""
    service = LocalityService(KafkaSettings(), LocalityParams(), time.time_ns, time.monotonic)
    document = application(Answers(Settings(), TopState(), service), LocalityParams(), "token").openapi()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    parameters = {one["operationId"]: {each["name"] for each in one.get("parameters", ())} for one in operations}
    assert len(parameters) == len(operations) == 12
    links = [link for one in operations for link in one["responses"]["200"].get("links", {}).values()]
    assert {link["operationId"] for link in links} == {"distance", "version"}
    for link in links:
        assert set(link["parameters"]) <= parameters[link["operationId"]], link
