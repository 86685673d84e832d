"""Finds symptoms in readings and events: one monitor for each condition of a port, GPU or PCIe link."""
