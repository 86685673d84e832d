"""`railsight job ID`: was the network clean for a job, and how much of it was seen."""
