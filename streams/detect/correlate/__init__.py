"""Evaluates, per pod, the detectors of DETECTORS that have a pod side."""
