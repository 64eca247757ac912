"""The pipeline file as validated specs, and HTTP sessions built from them."""
