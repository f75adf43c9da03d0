"""What missed its target: orders of variants, cases far off, and what is known of either."""
