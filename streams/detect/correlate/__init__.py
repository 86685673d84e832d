"""Evaluates the pod sides of the detectors in DETECTORS, per pod."""
