"""Builds alerts from findings and posts them to Alertmanager; delivers tickets."""
