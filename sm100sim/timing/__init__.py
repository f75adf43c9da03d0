"""Time of compiled code: machine code, what a run did, and a machine with a clock."""
