"""Remediations from findings: the policy table and the guards, pure."""
