"""Clients under test. `builtin` is the shipped `client` package, unchanged."""
