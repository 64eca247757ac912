"""The `anomaly` command as a user meets it."""
