"""What all handlers stand on: the wire, memory, images, handles, the session."""
