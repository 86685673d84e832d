"""Reports for `railsight job ID` whether the network of a job was clean, and how much of it was covered."""
