"""From the logs of a run to numbers: parsers, statistics, model FLOPs, comparison and reports."""
