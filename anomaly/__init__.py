"""Which node of a GPU training cluster is bad, since when, why, and who else is affected."""

__version__ = "0.1.0"
