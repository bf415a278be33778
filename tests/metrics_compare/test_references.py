"""Reference files: (value, lower, upper, unit)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudai_run.errors import UserError
from cloudai_run.metrics.references import evaluate_references, load_references
from cloudai_run.metrics.run_data import Side
from tests.metrics_compare.runs import run_data

TIMES = [10.0] * 10


def write(folder: Path, text: str, name: str = "references.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_toml_array_and_table_and_yaml_say_the_same(tmp_path: Path) -> None:
    array = load_references(write(tmp_path, 'step_time_s = [10.5, -0.1, 0.03, "s"]'))
    table = load_references(
        write(tmp_path, '[step_time_s]\nvalue = 10.5\nlower = -0.1\nupper = 0.03\nunit = "s"', "t.toml")
    )
    yaml = load_references(write(tmp_path, "step_time_s: [10.5, -0.1, 0.03, s]", "r.yaml"))
    assert array.references == table.references == yaml.references
    assert array.references[0].bounds == pytest.approx((9.45, 10.815))


@pytest.mark.parametrize(
    ("entry", "failed"),
    [
        ('[10.0, -0.01, 0.01, "s"]', False),
        ('[9.8, -0.01, 0.01, "s"]', True),
        ('[9.8, -0.01, 0.03, "s"]', False),
        ('[10.2, -0.01, 0.01, "s"]', True),
    ],
)
def test_bounds(tmp_path: Path, entry: str, failed: bool) -> None:
    file = load_references(write(tmp_path, f"step_time_s = {entry}"))
    (result,) = evaluate_references(file, Side(name="B", runs=(run_data("r", TIMES),)))
    assert result.failed == failed
    assert result.side == "B"


def test_no_bound_on_one_side(tmp_path: Path) -> None:
    file = load_references(write(tmp_path, "step_time_s: [9.0, -0.5, null, s]", "r.yml"))
    (result,) = evaluate_references(file, Side(name="A", runs=(run_data("r", TIMES),)))
    assert not result.failed
    assert result.gate == "step_time_s within [4.5, -] s"
    assert result.message == "10 s, +11.1% of the reference 9"


BAD = [
    ("", 'r.toml holds no reference\n  an example: step_time_s = [2.26, -0.05, 0.03, "s"]'),
    (
        'step_tme_s = [1, -0.1, 0.1, "s"]',
        "r.toml: there is no metric 'step_tme_s'\n  did you mean step_time_s?",
    ),
    (
        'step_time_s = [1, -0.1, 0.1, "ms"]',
        "r.toml: step_time_s is measured in 's', and the reference says 'ms'",
    ),
    (
        "step_time_s = 3",
        'r.toml: step_time_s must be [value, lower, upper, unit]\n  an example: [2.26, -0.05, 0.03, "s"]',
    ),
    (
        'step_time_s = [1, 0.1, 0.2, "s"]',
        "r.toml: step_time_s lower must be between -1 and 0 (a fraction of the value), got 0.1",
    ),
    (
        'step_time_s = [1, -0.1, -0.2, "s"]',
        "r.toml: step_time_s upper must be at least 0 (a fraction of the value), got -0.2",
    ),
    ('step_time_s = ["x", -0.1, 0.2, "s"]', "r.toml: step_time_s value must be a number, got 'x'"),
    (
        '[step_time_s]\nvalue = 1\nhigh = 2\nunit = "s"',
        "r.toml: step_time_s.high is not known\n  known: value, lower, upper, unit",
    ),
    ("where = 3", "r.toml: where must be a table, got 3"),
    (
        '[where]\nnodes = 3\n[step_time_s]\nvalue = 1\nunit = "s"',
        "r.toml: where.nodes is no condition\n"
        "  known: recipe, gpu_model, num_gpus, precision, global_batch_size, seq_length",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, text, "r.toml")
    with pytest.raises(UserError) as caught:
        load_references(Path("r.toml"))
    assert str(caught.value) == message


def test_broken_and_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "step_time_s = [", "r.toml")
    with pytest.raises(UserError, match=r"^r\.toml is not valid TOML: "):
        load_references(Path("r.toml"))
    write(tmp_path, "a: [", "r.yaml")
    with pytest.raises(UserError, match=r"^r\.yaml is not valid YAML: "):
        load_references(Path("r.yaml"))
    write(tmp_path, "- 1", "r.yaml")
    with pytest.raises(UserError, match=r"^r\.yaml must hold a table of metrics$"):
        load_references(Path("r.yaml"))
    with pytest.raises(
        UserError, match=r"^cannot read the references in none\.toml: No such file or directory$"
    ):
        load_references(Path("none.toml"))


WHERE = """
[where]
gpu_model = "H100"
num_gpus = 8
precision = "fp8"

[step_time_s]
value = 10
lower = -0.1
upper = 0.1
unit = "s"
"""


def test_conditions_that_hold(tmp_path: Path) -> None:
    file = load_references(write(tmp_path, WHERE))
    assert len(evaluate_references(file, Side(name="A", runs=(run_data("r", TIMES),)))) == 1


def test_conditions_that_do_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, WHERE.replace("H100", "B200"))
    file = load_references(Path("references.toml"))
    with pytest.raises(UserError) as caught:
        evaluate_references(file, Side(name="A", runs=(run_data("r", TIMES),)))
    assert str(caught.value) == (
        "the references in references.toml are for gpu_model = 'B200', and r has 'NVIDIA H100 80GB HBM3'"
    )


def test_smoke_and_invalid_and_missing(tmp_path: Path) -> None:
    file = load_references(write(tmp_path, 'step_time_s = [10, -0.1, 0.1, "s"]'))
    with pytest.raises(
        UserError, match=r"^r is a CPU smoke run: not a benchmark, so it takes no part in a gate"
    ):
        evaluate_references(file, Side(name="A", runs=(run_data("r", TIMES, smoke=True),)))
    bad = run_data("r", TIMES, status="invalid", reasons=("NaN loss",))
    (result,) = evaluate_references(file, Side(name="A", runs=(bad,)))
    assert (result.failed, result.message) == (True, "r is invalid: NaN loss")
    loss = load_references(write(tmp_path, 'loss = [2, -0.1, 0.1, "1"]', "loss.toml"))
    with pytest.raises(UserError, match=r"^loss has no value in A\n  r: not in the log$"):
        evaluate_references(loss, Side(name="A", runs=(run_data("r", TIMES),)))
