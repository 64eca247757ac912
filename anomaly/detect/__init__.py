"""Detectors: panels in, scores out. Each file is one detector; none knows another. No I/O, no clock, no store."""
