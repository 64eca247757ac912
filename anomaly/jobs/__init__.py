"""The jobs: collect, score, deliver, publish, prune, and the service that runs them on time."""
