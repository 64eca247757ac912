"""The catalogue: what every signal is, how it is asked for, and how it is judged. Packs are YAML."""
