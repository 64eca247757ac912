"""The house keeps its own rules: layers, documents, the guard around end-to-end tests."""
