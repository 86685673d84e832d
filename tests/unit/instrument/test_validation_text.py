"""Refusals of values name what is expected, without the names of libraries and types."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from streams.instrument.text import refusal

CASES: list[tuple[Any, object, str]] = [
    (int, "400G", "must be a whole number"),
    (float, "often", "must be a number"),
    (bool, "maybe", "must be true or false"),
    (str, 1, "must be a text"),
    (tuple[int, ...], 3, "must be a list"),
    (dict[str, int], 3, "must be a table"),
    (Annotated[int, Field(ge=1)], 0, "must be at least 1"),
    (Annotated[float, Field(lt=5)], 5, "must be less than 5.0"),
    (Annotated[str, Field(min_length=1)], "", "must not be empty"),
    (Literal["a", "b"], "c", "must be 'a' or 'b'"),
]


@pytest.mark.parametrize(("kind", "value", "text"), CASES)
def test_a_refusal_has_the_expected_value(kind: Any, value: object, text: str) -> None:
    """By the kinds that settings and inventories have."""
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value)
    assert refusal(refused.value.errors()[0]) == text
