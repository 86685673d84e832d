"""Simulates policies for corrupting links in the fabric and with the faults that the CorrOpt paper published."""
