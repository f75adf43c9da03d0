"""What the arithmetic is made of: MMAs, exponentials, columns, probabilities, lanes."""
