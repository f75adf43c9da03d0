"""Everything one compiled kernel is specialised on, its limits and its parameters."""
