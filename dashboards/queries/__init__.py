"""Defines the queries of the dashboards, one module per dashboard; query.py has their common parts."""
