"""Programs that show the package; each runs on a CPU and on a Blackwell GPU alike."""
