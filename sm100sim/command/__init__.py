"""`python -m sm100sim`: run, check, profile, mutate, coverage and info from a command line."""
