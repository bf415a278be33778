"""A report as one HTML page that opens offline: no script, no font and no picture from elsewhere."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping

from cloudai_run.metrics.definitions import METRICS
from cloudai_run.metrics.report import Report, StageReport
from cloudai_run.metrics.report_plots import plots
from cloudai_run.metrics.report_text import SMOKE_LINE, hidden_in_smoke, number, remarks

_STYLE = """
:root { color-scheme: light; --ink: #1c2430; --soft: #5b6675; --line: #dfe3ea; --blue: #1f6feb; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.badge { border-radius: 1rem; padding: .15rem .7rem; font-size: .85rem; color: #fff; vertical-align: middle; }
.valid { background: #1a7f37; } .incomplete { background: #9a6700; } .invalid { background: #c0392b; }
.smoke { background: #fff3cd; border: 1px solid #e2c76b; padding: .5rem .8rem; border-radius: .4rem; margin: 1rem 0; }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; min-width: 9rem; }
.card b { display: block; font-size: 1.35rem; } .card span, .soft { color: var(--soft); font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, td.left, th.left { text-align: left; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; margin-bottom: .2rem; } svg { width: 100%; height: auto; }
pre { background: #f6f8fa; border-radius: .4rem; padding: .7rem; overflow-x: auto; font-size: .8rem; }
summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
"""
_CARDS = ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu", "loss")


def report_html(report: Report) -> str:
    """Returns the whole page.

    Raises:
        UserError: matplotlib is not installed.
    """
    main = report.main
    title = html.escape(report.label)
    badge = f'<span class="badge {main.validity.status}">{main.validity.status}</span>'
    parts = [f"<h1>{title} {badge}</h1>", f'<p class="soft">{html.escape(_summary(report))}</p>']
    if report.smoke:
        parts.append(
            f'<p class="smoke"><b>{SMOKE_LINE}.</b> It shows that the run works, not how fast it is.</p>'
        )
    parts += [f"<p>{html.escape(reason)}</p>" for reason in main.validity.reasons]
    parts += ['<div class="cards">', *_cards(report), "</div>"]
    parts += [
        f"<figure><figcaption>{html.escape(name)}</figcaption>{svg}</figure>"
        for name, svg in plots(report).items()
    ]
    for stage in report.stages:
        parts += _stage(stage, report.smoke)
    parts += _how(report)
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def _summary(report: Report) -> str:
    record, shape = report.facts.record, report.shape
    words = [
        record.get("recipe"),
        record.get("created_utc"),
        f"{record['num_nodes']} nodes" if record.get("num_nodes") else None,
        f"{shape.num_gpus} {'processes' if report.smoke else 'GPUs'}" if shape.num_gpus else None,
        shape.gpu_model,
        shape.precision,
        f"global batch {shape.global_batch_size}" if shape.global_batch_size else None,
        f"sequence {shape.seq_length}" if shape.seq_length else None,
        report.outcome,
    ]
    return ", ".join(str(word) for word in words if word)


def _cards(report: Report) -> Iterator[str]:
    stage = report.main
    count = stage.step_time.count if stage.step_time else 0
    for name in _CARDS:
        if name not in stage.values or (report.smoke and name in hidden_in_smoke()):
            continue
        metric = METRICS[name]
        value = stage.values[name]
        shown = f"{value:.1%}" if name == "mfu" else number(value)
        unit = "" if metric.unit == "1" else metric.unit
        note = ", ".join(
            filter(None, [unit, metric.convention, f"{count} steps" if metric.from_step_time else "last"])
        )
        yield f'<div class="card"><span>{name}</span><b>{shown}</b><span>{html.escape(note)}</span></div>'


def _stage(stage: StageReport, smoke: bool) -> Iterator[str]:
    yield f"<h2>Stage {html.escape(stage.name)}</h2>"
    window = stage.window
    yield (
        f'<p class="soft">{len(window.all_steps)} steps in the log, {len(window.steps)} measured: '
        f"{html.escape(window.rule)}</p>"
    )
    time = stage.step_time
    if time:
        yield "<table><tr><th>metric</th><th>value</th><th class='left'>unit</th><th class='left'>convention</th></tr>"
        for name, metric in METRICS.items():
            if name in stage.values and not (smoke and name in hidden_in_smoke()):
                yield (
                    f"<tr><td>{name}</td><td>{number(stage.values[name])}</td>"
                    f"<td class='left'>{metric.unit}</td><td class='left'>{metric.convention or ''}</td></tr>"
                )
        yield "</table>"
        spread = {
            "mean": time.mean,
            "std": time.std,
            "min": time.min,
            "p5": time.p5,
            "p95": time.p95,
            "max": time.max,
        }
        words = ", ".join(f"{name} {number(value)}" for name, value in spread.items() if value is not None)
        interval = ""
        if time.median_low is not None and time.median_high is not None:
            interval = f"; {time.confidence:.0%} interval of the median {number(time.median_low)} to {number(time.median_high)}"
        yield f'<p class="soft">step_time_s over {time.count} steps: {words}{interval}</p>'
    yield from (f'<p class="soft">{html.escape(text)}</p>' for text in remarks(stage, smoke))


def _how(report: Report) -> Iterator[str]:
    """What a reader needs to believe and repeat the run."""
    record = report.facts.record
    if not record:
        return
    yield "<h2>How it was run</h2>"
    for title, key in (
        ("Command", "command"),
        ("Overrides", "overrides"),
        ("Reset for the smoke run", "resets"),
    ):
        words = record.get(key)
        if isinstance(words, (list, tuple)) and words:
            yield _details(title, "\n".join(map(str, words)))
    sections: Mapping[str, object] = {
        "Versions": record.get("versions"),
        "Checked against": record.get("schema_versions"),
        "Executor": record.get("executor"),
        "Environment": record.get("env"),
        "XLA flags": record.get("xla_flags"),
        "Nodes": list(report.facts.nodes),
        "Configuration": report.facts.config,
    }
    for title, value in sections.items():
        if value:
            yield _details(title, json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _details(title: str, text: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary><pre>{html.escape(text)}</pre></details>"
