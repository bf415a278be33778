"""report.json in a run's folder: refreshed as a whole, never lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cloudai_run.metrics.report import Report
from cloudai_run.metrics.report_json import report_json

REPORT_FILE = "report.json"


def save_report(report: Report, run_dir: Path) -> Path | None:
    """Writes report.json into a run folder, whole or not at all.

    A report without numbers does not replace one that has some: the logs may have been cleared away since.

    Returns:
        The file; None if the old one was kept.

    Raises:
        OSError: the folder cannot be written.
    """
    path = run_dir / REPORT_FILE
    if not report.main.measured_something and path.is_file():
        return None
    temporary = path.with_name(f".{REPORT_FILE}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(report_json(report), indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
