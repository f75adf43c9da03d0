"""`python -m sm100sim`: run, check, coverage and info from a command line."""
