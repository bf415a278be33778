"""What `compare` prints: whole outputs against golden files, and the command's exit codes."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cloudai_run.cli.compare import compare as compare_command
from cloudai_run.errors import UserError
from cloudai_run.metrics.compare_html import comparison_html
from cloudai_run.metrics.compare_json import comparison_json
from cloudai_run.metrics.compare_results import Results, compare_all
from cloudai_run.metrics.compare_text import markdown, terminal
from cloudai_run.metrics.gates import parse_gate
from cloudai_run.metrics.run_data import make_sides
from tests.golden import assert_golden
from tests.metrics_compare.runs import (
    SHAPE,
    RunFacts,
    config_tree,
    nemo_log,
    record,
    run_data,
    step_times,
    write_run,
)

GOLDEN = Path(__file__).parent / "golden"


def three_against_three() -> Results:
    """A slower side of three runs, with the override that made it slower."""
    generator = random.Random(42)
    before = RunFacts(record=record(), config=config_tree(), nodes=("node1",))
    after = RunFacts(
        record=record(
            overrides=["trainer.max_steps=99"],
            env={"NCCL_DEBUG": "INFO|WARN"},
            container_image="nvcr.io/nvidia/nemo:25.07",
        ),
        config=config_tree(max_steps=99, callbacks=[]),
        nodes=("node2",),
    )
    groups = [
        [
            run_data(
                f"llama3_8b_{name}{number}",
                step_times(generator, seconds=seconds, noise=0.002),
                facts=facts,
                extra={"loss": 5.0 + generator.gauss(0, 0.01)},
            )
            for number in range(3)
        ]
        for name, seconds, facts in (("old", 9.0, before), ("new", 9.9, after))
    ]
    gates = [parse_gate("step_time_s>+3%"), parse_gate("mfu<0.2")]
    return compare_all(make_sides(groups), gates=gates, against_published=True)


def smoke_against_smoke() -> Results:
    """Two smoke runs of a few steps that differ in one override."""
    sides = [
        [
            run_data(
                name,
                [0.05, 0.051, 0.049],
                smoke=True,
                facts=RunFacts(
                    record=record(smoke=True, overrides=list(overrides)),
                    config=config_tree(num_layers=layers),
                ),
            )
        ]
        for name, overrides, layers in (("s1", (), 2), ("s2", ("model.config.num_layers=4",), 4))
    ]
    return compare_all(make_sides(sides))


def one_alone() -> Results:
    """One run with a value gate, and no published row that fits."""
    shape = SHAPE.__class__(**{**SHAPE.__dict__, "num_gpus": 24})
    sides = make_sides([[run_data("r1", [9.0] * 10, shape=shape)]])
    return compare_all(sides, gates=[parse_gate("step_time_s>8.5")], against_published=True)


CASES = {
    "three": three_against_three,
    "smoke": smoke_against_smoke,
    "alone": one_alone,
}


@pytest.mark.parametrize("name", CASES)
def test_terminal(name: str) -> None:
    assert_golden(GOLDEN / f"{name}.txt", terminal(CASES[name]()))


@pytest.mark.parametrize("name", CASES)
def test_markdown(name: str) -> None:
    assert_golden(GOLDEN / f"{name}.md", markdown(CASES[name]()))


@pytest.mark.parametrize("name", CASES)
def test_json(name: str) -> None:
    text = json.dumps(comparison_json(CASES[name]()), indent=2, allow_nan=False) + "\n"
    # The last digits of a logarithm may differ between C libraries.
    rounded = re.sub(r"-?\d+\.\d{7,}(?:e-?\d+)?", lambda match: f"{float(match[0]):.6g}", text)
    assert_golden(GOLDEN / f"{name}.json", rounded)


@pytest.mark.parametrize("name", CASES)
def test_html(name: str) -> None:
    assert_golden(GOLDEN / f"{name}.html", comparison_html(CASES[name]()))


def test_html_needs_nothing_else_and_escapes() -> None:
    sides = make_sides(
        [[run_data("<script>alert(1)</script>", [1.0] * 9)], [run_data("b", [1.0] * 9, status="invalid")]]
    )
    page = comparison_html(compare_all(sides))
    assert "<script" not in page
    assert "http" not in page
    assert "&lt;script&gt;" in page


def test_smoke_is_said_first_in_every_output() -> None:
    results = smoke_against_smoke()
    assert terminal(results).startswith("CPU smoke run: not a benchmark\n")
    assert markdown(results).startswith("**CPU smoke run: not a benchmark**\n")
    assert "CPU smoke run: not a benchmark" in comparison_html(results)
    assert [side["smoke"] for side in json.loads(json.dumps(comparison_json(results)))["sides"]] == [
        True,
        True,
    ]


def test_the_override_that_differs_is_named() -> None:
    line = next(line for line in terminal(smoke_against_smoke()).splitlines() if "num_layers" in line)
    assert line.split() == ["configuration", ".model.config.num_layers", "2", "4", "override", "in", "B"]


def invoke(argv: Sequence[str]) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(compare_command)
    result = CliRunner().invoke(app, list(argv), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert isinstance(result.return_value, int)
    return result.return_value, result.output


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    times = step_times(random.Random(5), 60, noise=0.002)
    fast = write_run(tmp_path / "fast", times, run_record=record(run_id="fast"), config=config_tree())
    slow = write_run(
        tmp_path / "slow",
        [1.1 * value for value in times],
        run_record=record(run_id="slow", overrides=["model.config.num_layers=36"]),
        config=config_tree(num_layers=36),
    )
    return str(fast), str(slow)


def test_a_run_a_tenth_slower_is_slower_and_fails_the_gate(runs: tuple[str, str]) -> None:
    code, output = invoke([*runs, "--fail-if", "step_time_s>+3%"])
    assert code == 1
    assert re.search(r"step_time_s .* \+10\.0% .* slower \(within these runs\)", output)
    assert re.search(r"FAILED  step_time_s>\+3%  B     \+10\.0% ", output)
    assert ".model.config.num_layers" in output
    assert "override in B" in output


def test_exit_code_zero_when_the_gates_pass(runs: tuple[str, str]) -> None:
    assert invoke([*runs, "--fail-if", "step_time_s>+30%", "--fail-if", "step_time_s>100"])[0] == 0
    assert invoke([*runs])[0] == 0


def test_json_and_markdown_and_html_on_the_command_line(runs: tuple[str, str], tmp_path: Path) -> None:
    code, output = invoke([*runs, "--json", "--fail-if", "step_time_s>+3%"])
    found = json.loads(output)
    assert code == 1
    assert found["failed"] is True
    assert found["pairs"][0]["metrics"]["step_time_s"]["verdict"] == "slower"
    code, output = invoke([*runs, "--markdown", "--html", str(tmp_path / "page.html")])
    assert code == 0
    assert "| step\\_\\_" not in output
    assert "### B against A" in output
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_reference_file_decides(runs: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "references.toml"
    path.write_text('step_time_s = [10.0, -0.05, 0.05, "s"]', encoding="utf-8")
    assert invoke([runs[0], "--reference", str(path)])[0] == 0
    assert invoke([runs[1], "--reference", str(path)])[0] == 1
    assert invoke([*runs, "--reference", str(path)])[0] == 1


def test_published(runs: tuple[str, str]) -> None:
    code, output = invoke([runs[0], "--against", "published"])
    assert code == 0
    assert "A against published numbers" in output
    assert "NVIDIA Megatron-Bridge performance summary, container 25.11" in output


def test_foreign_logs_take_their_shape_from_options(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(nemo_log([10.0] * 40), encoding="utf-8")
    options = [
        "--model",
        "llama3_8b",
        "--gpus",
        "8",
        "--gpu",
        "H100",
        "--precision",
        "fp8",
        "--seq-length",
        "8192",
    ]
    code, output = invoke([str(log), *options, "--fail-if", "mfu<50%"])
    assert code == 1
    assert re.search(r"FAILED  mfu<50%  A     0\.34\d+\n", output)


MISTAKES = [
    (
        ["RUN"],
        "one side cannot be compared with nothing\n"
        "  give a second run, --against published, --fail-if 'step_time_s>2.5' or --reference FILE",
    ),
    (["RUN", "RUN", "--json", "--markdown"], "--json and --markdown cannot both be printed: choose one"),
    (
        ["RUN", "RUN", "--against", "publishd"],
        "--against 'publishd' is not known\n  write --against published, or name a run as a side",
    ),
    (
        ["RUN", "RUN", "--min-effect", "x"],
        "--min-effect 'x' is no number of per cent\n  an example: --min-effect 1%",
    ),
    (
        ["RUN", "RUN", "--run-spread", "-1%"],
        "--run-spread must lie between 0 and 100 per cent, and it is '-1%'",
    ),
    (
        ["RUN", "RUN", "--fail-if", "step_time_s"],
        "--fail-if 'step_time_s' is no condition\n"
        "  write 'step_time_s>+3%' (a change) or 'step_time_s>2.5' (a value)",
    ),
    (
        ["RUN", "RUN", "--model", "llama3_9b"],
        "the shape of the model 'llama3_9b' is not known\n"
        "  did you mean llama3_8b or llama3_70b or llama32_3b?",
    ),
    (
        ["RUN", "RUN", "--html", "/nowhere/page.html"],
        "cannot write /nowhere/page.html: No such file or directory",
    ),
]


@pytest.mark.parametrize(("argv", "message"), MISTAKES)
def test_mistakes(runs: tuple[str, str], argv: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        invoke([runs[0] if word == "RUN" else word for word in argv])
    assert str(caught.value) == message


def test_help_has_an_example() -> None:
    code, output = invoke(["--help"])
    assert code == 0
    assert "Example: cloudai-run compare run1,run2,run3" in output
