"""Fabric-wide: one cause for many episodes, who is hit, and what becomes a finding."""
