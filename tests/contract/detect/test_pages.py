"""The example on each detector's section on the page of its family is its real output."""

import pytest

from tests.contract.detect.cases import LABELLED
from tests.contract.detect.pages import example, shown


@pytest.mark.parametrize("slug", LABELLED)
def test_its_example_is_what_explain_prints_of_its_labelled_case(slug: str) -> None:
    """Rewrite it with `python -m tests.contract.detect.pages`."""
    assert shown(slug) == example(slug) != ""
