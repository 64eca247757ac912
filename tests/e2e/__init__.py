"""The whole thing against real Prometheus and Alertmanager processes."""
