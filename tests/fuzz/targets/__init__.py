"""Targets by what they parse; registry.py has all."""
