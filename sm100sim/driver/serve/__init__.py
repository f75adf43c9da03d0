"""The simulator's end of the connections, and the folder of libraries that programs find."""
