"""Tests of the locality with the programs of others."""
