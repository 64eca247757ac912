"""What is packed, and what a wheel does in an empty directory."""
