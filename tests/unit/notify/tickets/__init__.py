"""Tests tickets."""
