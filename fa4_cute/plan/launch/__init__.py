"""What a launch needs: grid, tensor maps, and which kernel is chosen."""
