"""Tests of streams.instrument."""
