"""From a specification to PTX and cubin: trace, compile, keep."""
