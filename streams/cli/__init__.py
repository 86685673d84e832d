"""Implements the command line; a command parses options, builds settings and calls one function."""
