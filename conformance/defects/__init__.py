"""Historical defects of evaluation clients, put back on purpose to see that the catalogue catches them by name."""
