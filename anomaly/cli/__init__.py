"""The `anomaly` command: one module a command, each importing what is heavy only when it runs."""
