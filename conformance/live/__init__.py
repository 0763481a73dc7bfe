"""Live: a server that nobody here scripts, checked before anything is spent on it (design.md 10)."""
