"""Composes each room's own Params; the only reader of TOML and environment."""
