"""What tests, benchmarks and examples share; not part of the installed packages."""
