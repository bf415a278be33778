"""The command line: one module a verb, put together in main.py."""
