"""Control flow and operations across a warp."""
