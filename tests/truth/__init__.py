"""What was found against what was true."""
