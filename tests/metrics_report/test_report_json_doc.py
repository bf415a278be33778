"""docs/report-json.md describes report.json key by key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cloudai_run.metrics.load import load_report
from cloudai_run.metrics.report_json import SCHEMA_VERSION, Json, report_json
from cloudai_run.metrics.throughput import RunShape
from tests.metrics_report import runs_to_report
from tests.metrics_report.folders import nemo_log, steps_of
from tests.metrics_report.runs_to_report import NCCL_LOG

PAGE = Path(__file__).parents[2] / "docs" / "report-json.md"
# Written by others and described there, or the same in another unit.
ELSEWHERE = (".record", ".config", ".model", ".stage_records[]")
SAME = {
    ".stages[].metrics": ".metrics",
    ".stages[].loss.window": ".stages[].step_time_s",
    ".stages[].ranks.stragglers[]": ".stages[].ranks.ranks[]",
}
NAMES_ARE_DATA = (".metrics", ".stages[].framework_check.tflops_per_gpu", ".stages[].ranks.nodes")


def documented() -> dict[str, list[str]]:
    """Path of each object to the keys of its table, in order."""
    sections: dict[str, list[str]] = {}
    for title, body in re.findall(r"^## (.+)\n((?:(?!^#).*\n)*)", PAGE.read_text(encoding="utf-8"), re.M):
        name = re.fullmatch(r"`(.+)`", title)
        keys = re.findall(r"^\| `(\w+)` \|", body, re.M)
        sections[f".{name[1]}" if name else ""] = keys
    return sections


def objects(value: Json, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Every object of a report by the path that the page uses."""
    for longer, shorter in SAME.items():
        if path == longer or path.startswith((f"{longer}.", f"{longer}[")):
            path = shorter + path[len(longer) :]
    if path in ELSEWHERE or path.startswith(".stages[].tables[].devices"):
        return
    if isinstance(value, Mapping):
        if path not in NAMES_ARE_DATA:
            yield path, list(value)
        for key, item in value.items():
            yield from objects(item, f"{path}.*" if path in NAMES_ARE_DATA else f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from objects(item, f"{path}[]")


def reports() -> Iterator[dict[str, Json]]:
    yield report_json(load_report([str(runs_to_report.straggler())]))
    Path("nccl.log").write_text(NCCL_LOG, encoding="utf-8")
    yield report_json(load_report(["nccl.log"]))
    times = steps_of(40)
    times[30] *= 2
    text = nemo_log(times).replace("| consumed", "| TFLOPS_per_GPU: 865.7 | consumed")
    Path("run.log").write_text(f"{text}CUDA out of memory. Tried it: Error\n", encoding="utf-8")
    shape = RunShape(num_gpus=8, gpu_model="H100", precision="fp8", seq_length=8192)
    model = load_report([str(runs_to_report.FOLDER)]).shape.model
    yield report_json(load_report(["run.log"], shape=RunShape(**{**vars(shape), "model": model})))


def test_every_key_is_described_and_no_other() -> None:
    page = documented()
    seen: set[str] = set()
    for report in reports():
        for path, keys in objects(report):
            assert keys == page.get(path), path
            seen.add(path)
    assert seen == set(page)


def test_the_page_names_the_version() -> None:
    assert f"`schema_version` is {SCHEMA_VERSION}." in PAGE.read_text(encoding="utf-8")
