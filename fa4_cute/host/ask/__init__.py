"""What was asked for: arguments checked and turned into a problem of plain numbers."""
