"""Defines the commands of the laboratory: demo, bench and chaos."""
