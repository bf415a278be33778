"""One streaming parser a log format; `cloudai_run.metrics.detect` chooses among them by content."""
