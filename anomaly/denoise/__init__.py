"""From findings to incidents: an ordered list of pure rules. Nothing is set aside without a named reason."""
