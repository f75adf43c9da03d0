"""The C engine and its Python binding."""
