"""Follows what devices report about themselves: LLDP neighbors, and the versions that they run."""
