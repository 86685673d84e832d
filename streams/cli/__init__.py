"""The command line: one module per subcommand; parses, builds settings, calls one function."""
