"""Steps of decoding of the side-by-side page."""
