"""Targets: the servers a scenario runs against."""
