"""`railsight bench peers`: what a user would otherwise run, on the same data in the same run."""
