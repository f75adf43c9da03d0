"""Host side: compile a plan, pack its parameters, launch it."""
