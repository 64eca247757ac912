"""Answers that nobody should ever send."""
