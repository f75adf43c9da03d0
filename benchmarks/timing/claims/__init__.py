"""What others timed on a B200, as ratios of times on one machine, beside predictions."""
