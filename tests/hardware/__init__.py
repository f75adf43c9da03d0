"""Records of a real H200 replayed on the simulator."""
