"""`railsight bench`: what the pipeline costs on this machine, measured on the pipeline itself."""
