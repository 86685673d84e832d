"""Fuzzers that run for minutes; `make test` runs a seeded, bounded part of each."""
