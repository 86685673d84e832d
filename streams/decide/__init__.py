"""Decides remediations for findings: the policy table and the guards. Pure."""
