"""Serves findings, jobs, devices and the health of the pipeline as pages and as JSON."""
