"""What to run: short factories that return a `run.Partial`, one module a workload."""
