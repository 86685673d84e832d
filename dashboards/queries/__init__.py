"""Defines the queries of the dashboards, one module for each; query.py has their common parts."""
