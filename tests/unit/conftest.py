"""Provides the fixtures of all unit tests."""

from tests.fixtures.logging_state import restored_logging  # noqa: F401 — autouse: commands configure logging
