"""The part of the page that a reader needs to believe and repeat a run: command, configuration, versions, script."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from cloudai_run.metrics.report import Report

_LISTS = (("Overrides", "overrides"), ("Reset for the smoke run", "resets"))
_TABLES = (
    ("Versions", "versions"),
    ("Checked against", "schema_versions"),
    ("Executor", "executor"),
    ("Environment", "env"),
    ("XLA flags", "xla_flags"),
)


def how_it_was_run(report: Report) -> Iterator[str]:
    """Yields the sections; none for log files, of which nothing is known but their names."""
    record = report.facts.record
    if not record:
        sources = [source for stage in report.stages for source in stage.log.sources]
        yield "<h2>Where the numbers come from</h2>"
        yield _details("Files", "\n".join(sources))
        if report.script:
            yield _details("Script", report.script)
        return
    yield "<h2>How it was run</h2>"
    yield _lines(
        {
            "recipe": record.get("recipe"),
            "started": record.get("created_utc"),
            "container": record.get("container_image"),
            "nodes": ", ".join(report.facts.nodes) or record.get("num_nodes"),
            "ranks a node": record.get("num_gpus_per_node"),
            "GPU": report.shape.gpu_model,
            "run folder": str(report.run_dir) if report.run_dir else None,
        }
    )
    command = record.get("command")
    if isinstance(command, Sequence) and command:
        from cloudai_run.executors.quoting import shell_word

        yield _details("Command of each rank", " ".join(shell_word(str(word)) for word in command))
    for title, key in _LISTS:
        words = record.get(key)
        if isinstance(words, Sequence) and not isinstance(words, str) and words:
            yield _details(title, "\n".join(map(str, words)))
    for title, key in _TABLES:
        if record.get(key):
            yield _details(title, _pretty(record[key]))
    if report.facts.config:
        yield _details("Configuration", _pretty(report.facts.config))
    if report.script:
        yield _details("Script", report.script)


def _lines(facts: Mapping[str, object]) -> str:
    rows = "".join(
        f'<tr><td class="left">{name}</td><td class="left">{escape(str(value))}</td></tr>'
        for name, value in facts.items()
        if value
    )
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>'


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _details(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
