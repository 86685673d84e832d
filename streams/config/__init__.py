"""Composes the Params of all rooms; only this package reads TOML and the environment."""
