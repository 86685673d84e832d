"""Other frameworks and clients that do the same task on the same data as railsight, one module each."""
