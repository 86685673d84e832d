"""Detectors: one package for each condition."""
