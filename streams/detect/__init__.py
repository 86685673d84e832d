"""Turns samples into findings: the stages measure, correlate and attribute, and one pure module per detector."""
