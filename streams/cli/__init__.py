"""The command line: one module per subcommand, which parses options, builds settings and calls one function."""
