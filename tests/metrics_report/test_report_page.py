"""The page with plots: whole by itself, the same for the same run, and drawn by a real browser without a network."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cloudai_run.metrics.load import load_report
from cloudai_run.metrics.report import Report
from cloudai_run.metrics.report_html import report_html
from cloudai_run.metrics.report_pictures import Span, pictures, stage_spans
from cloudai_run.metrics.report_plots import main_png
from tests.metrics_report import runs_to_report
from tests.metrics_report.folders import nemo_log, record, steps_of, write_folder
from tests.metrics_report.runs_to_report import FOLDER, NCCL_LOG, RUNS


def report_of(make: Callable[[], Path]) -> Report:
    return load_report([str(make())])


def titles(report: Report) -> list[str]:
    return [title for title, _ in pictures(report)]


def test_plots_of_a_run() -> None:
    assert titles(report_of(runs_to_report.straggler)) == [
        "Step time over steps",
        "Distribution of the measured steps",
        "Loss",
        "Ranks: step time over the median of the step",
        "Stages",
    ]


def test_plots_of_two_stages() -> None:
    assert titles(report_of(runs_to_report.paxml)) == [
        "Step time over steps (profile)",
        "Distribution of the measured steps (profile)",
        "Step time over steps (perf)",
        "Distribution of the measured steps (perf)",
        "Ranks: step time over the median of the step (perf)",
        "Stages",
    ]


def test_plots_of_an_nccl_log() -> None:
    Path("nccl.log").write_text(NCCL_LOG, encoding="utf-8")
    assert titles(load_report(["nccl.log"])) == ["Bandwidth over size: all_reduce_perf"]


@pytest.mark.parametrize("name", RUNS)
def test_every_plot_is_well_formed_and_fits_its_run(name: str) -> None:
    for title, svg in pictures(report_of(RUNS[name])):
        root = ET.fromstring(svg)
        assert root.get("aria-label") == title
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 5


def test_the_plots_of_a_long_run_stay_small() -> None:
    text = nemo_log([seconds + step % 7 / 100 for step, seconds in enumerate(steps_of(20_000, 1.0))])
    Path("run.log").write_text(text, encoding="utf-8")
    assert sum(len(svg) for _, svg in pictures(load_report(["run.log"]))) < 700_000


def test_spans_of_stages() -> None:
    events = [
        {"attempt": 0, "stage": "a", "event": "start", "time_unix_s": 100.0},
        {"attempt": 0, "stage": "a", "event": "end", "time_unix_s": 110.0, "exit_code": 1},
        {"attempt": 1, "stage": "a", "event": "start", "time_unix_s": 200.0},
        {"attempt": 1, "stage": "b", "event": "start", "time_unix_s": "soon"},
    ]
    assert stage_spans(events) == [Span("a", 0.0, 10.0, 1), Span("a, attempt 1", 100.0, None, None)]
    assert stage_spans([]) == []


class References(HTMLParser):
    """Collects what a page would load, and its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed"):
            self.found.append(tag)
        for name, value in attrs:
            loads = name in ("src", "href", "xlink:href", "srcset", "data", "action")
            if loads and value and not value.startswith(("#", "data:")):
                self.found.append(f"{tag} {name}={value}")
            if name.startswith("on"):
                self.found.append(f"{tag} {name}")


@pytest.mark.parametrize("name", RUNS)
def test_the_page_refers_to_nothing_else(name: str) -> None:
    page = report_html(report_of(RUNS[name]))
    references = References()
    references.feed(page)
    assert references.found == []
    assert re.findall(r"url\((?!#)", page) == []
    assert "@import" not in page
    addresses = set(re.findall(r"https?://[^\"'\s<>]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_the_same_run_gives_the_same_page() -> None:
    report = report_of(runs_to_report.straggler)
    assert report_html(report) == report_html(report)


def test_the_page_holds_what_a_reader_needs_to_believe_and_repeat_the_run() -> None:
    page = report_html(report_of(runs_to_report.nemo))
    for text in (
        "trainer.max_steps=60",
        "nvcr.io/nvidia/nemo:25.04",
        "node1",
        "NVIDIA H100 80GB HBM3",
        "&quot;nemo_toolkit&quot;: &quot;2.7.3&quot;",
        "&quot;partition&quot;: &quot;batch&quot;",
        "&quot;NCCL_DEBUG&quot;: &quot;WARN&quot;",
        "#SBATCH --nodes=1",
        "nemo.lightning.pytorch.trainer.Trainer",
        "nemo llm pretrain --factory llama3_8b",
        "first 10 of 60 timed steps left out as warm-up",
    ):
        assert text in page, text


def test_a_smoke_run_says_so_in_title_page_and_png() -> None:
    report = report_of(runs_to_report.smoke)
    page = report_html(report)
    assert page.count("CPU smoke run: not a benchmark") == 2
    assert "tokens/s/process" in page
    assert "tflops" not in page
    assert "mfu" not in page
    assert main_png(report) != main_png(load_report(["run/logs/train/attempt-0/rank-0.log"]))


def test_a_logs_own_text_is_no_markup() -> None:
    evil = "<script>alert(1)</script>"
    run = record(recipe=evil, overrides=(evil,), env={"A": evil}, run_id=evil)
    folder = write_folder(FOLDER, run, {"train/rank-0.log": nemo_log(steps_of(30))})
    report = load_report([str(folder)])
    assert "<script" not in report_html(report)


def browser(page: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, "no chromium on the PATH"
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--enable-logging=stderr",
    ]
    command = [
        program,
        *options,
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={tmp_path / 'profile'}",
        *arguments,
        path.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


# Put into a copy of the page: what the browser laid out, as JSON.
_PROBE = """<script>
const boxes = [...document.querySelectorAll("figure svg")].map(svg => {
  const box = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].filter(text => text.getBBox().width > 0).length;
  return {title: svg.getAttribute("aria-label"), width: box.width, height: box.height, texts: texts};
});
document.body.innerHTML = "<pre id=probe>" + JSON.stringify({boxes: boxes, wide: document.documentElement.scrollWidth,
  text: document.body.innerText}).replaceAll("<", "&lt;") + "</pre>";
</script></body>"""


@pytest.mark.browser
@pytest.mark.parametrize("name", ["nemo", "paxml", "straggler", "nan"])
def test_a_browser_draws_every_plot(name: str, tmp_path: Path) -> None:
    report = report_of(RUNS[name])
    page = report_html(report)
    done = browser(page.replace("</body>", _PROBE), tmp_path, "--dump-dom", "--window-size=1100,900")
    assert "CONSOLE" not in done.stderr
    found = re.search(r'<pre id="probe">(.*)</pre>', done.stdout, re.S)
    assert found is not None
    probe = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert [box["title"] for box in probe["boxes"]] == titles(report)
    for box in probe["boxes"]:
        assert box["width"] > 800, box
        assert box["height"] > 80, box
        assert box["texts"] > 3, box
    assert probe["wide"] <= 1100
    for text in (
        report.label,
        report.status,
        "step_time_s",
        "95 % interval",
        "How it was run",
        *report.reasons,
    ):
        assert text in probe["text"]


@pytest.mark.browser
def test_an_error_on_a_page_would_be_seen(tmp_path: Path) -> None:
    page = report_html(report_of(runs_to_report.smoke))
    broken = page.replace(
        "</body>", '<img src="http://elsewhere.example/x.png"><script>nosuch()</script></body>'
    )
    assert "CONSOLE" in browser(broken, tmp_path, "--dump-dom").stderr


@pytest.mark.browser
def test_the_page_is_drawn(tmp_path: Path) -> None:
    shot = tmp_path / "page.png"
    page = report_html(report_of(runs_to_report.straggler))
    browser(page, tmp_path, f"--screenshot={shot}", "--window-size=1100,1400")
    data = shot.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1100, 1400)
    # A blank page of this size compresses to less than 10 kB.
    assert len(data) > 60_000
