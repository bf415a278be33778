"""NeMo 2.0 recipes: their configuration trees as data, and the fiddle graphs built from it."""
