"""Renders and checks the Helm chart."""
