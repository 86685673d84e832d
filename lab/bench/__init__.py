"""`railsight bench` measures the cost of the pipeline on this machine."""
