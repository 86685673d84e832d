"""Reports for people and tools: status, explanations, verdicts on jobs, drafts of inventories, the terminal program."""
