"""The run panel: what a run does, branch by branch, live or recorded."""
