"""Tests of the probe collector."""
