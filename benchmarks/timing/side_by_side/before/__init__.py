"""The side-by-side page as it stood before kernels were made faster, beside that of now."""
