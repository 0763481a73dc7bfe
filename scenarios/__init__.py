"""The shared catalogue of scenarios and the schema of scenarios and faults. Imports nothing of this project."""
