"""Tests of the collector of InfiniBand."""
