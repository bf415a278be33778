"""What a script does when all goes well and when something does not."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from cloudai_run.executors import machinery
from cloudai_run.executors.nsys import report_path
from cloudai_run.executors.plan import (
    Artifact,
    Gate,
    Layout,
    Nsys,
)
from cloudai_run.executors.render import render_sbatch
from tests.executors_render.harness import (
    plan_of,
    run_plan,
    run_script,
    stage,
)
from tests.executors_render.plans import RUN_DIR, SBATCH_PLANS, nsys, pgle


def test_failed_stage_ends_the_job_with_its_exit_code(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path, stage("one"), stage("two", "--exit-on", "3", "9", "--sleep", "30"), stage("three")
    )
    outcome = run_plan(plan, tmp_path)
    assert outcome.code == 9
    assert outcome.ends() == {"one": 0, "two": 9}
    assert outcome.reason("two") == "node2: task 3: Exited with exit code 9"
    assert "cloudai-run: stage two failed with exit code 9: node2: task 3: Exited with" in outcome.stderr
    assert len(outcome.sruns) == 2


def test_records_hold_times_nodes_and_attempt(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, stage("all"), stage("one", layout=Layout.ONCE), retries=1)
    began = time.time()
    outcome = run_plan(plan, tmp_path, attempt=1)
    assert [record["event"] for record in outcome.records] == ["start", "end", "start", "end"]
    assert [record["nodes"] for record in outcome.records[1:3]] == [["node1", "node2"], ["node1"]]
    assert {record["attempt"] for record in outcome.records} == {1}
    times = [record["time_unix_s"] for record in outcome.records]
    assert began - 1 < times[0]
    assert times == sorted(times)
    assert outcome.records[0] | {"time_unix_s": 0} == {
        "attempt": 1,
        "stage": "all",
        "event": "start",
        "time_unix_s": 0,
        "exit_code": None,
        "reason": None,
        "nodes": ["node1", "node2"],
        "job_id": 4711,
    }


def test_logs_are_one_file_a_node_with_labels_and_one_of_rank_0(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, stage("all", "--print", "hello", "--print-on", "0", "0: é $x"))
    outcome = run_plan(plan, tmp_path, attempt=3)
    assert sorted(outcome.log("all", "node-0-node1.log", 3).splitlines()) == [
        "0: 0: é $x",
        "0: hello",
        "1: hello",
    ]
    assert sorted(outcome.log("all", "node-1-node2.log", 3).splitlines()) == ["2: hello", "3: hello"]
    assert outcome.log("all", "rank-0.log", 3) == "hello\n0: é $x\n"


def test_a_full_disk_leaves_the_exit_code_right_and_the_record_in_the_output(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, stage("one"), stage("two", "--exit-on", "0", "7"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "stages.jsonl").symlink_to("/dev/full")
    outcome = run_script(render_sbatch(plan), tmp_path, run_dir=tmp_path / "run")
    assert outcome.code == 7
    printed = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"attempt"')]
    assert [(record["stage"], record["exit_code"]) for record in printed if record["event"] == "end"] == [
        ("one", 0),
        ("two", 7),
    ]
    assert "cloudai-run: cannot write" in outcome.stderr


def test_gate_without_its_text_fails_the_stage(tmp_path: Path) -> None:
    gate = Gate(text='Avg "bus" $bandwidth')
    plan = plan_of(tmp_path, stage("preflight", "--print", "Avg bus", gate=gate), stage("train"))
    outcome = run_plan(plan, tmp_path)
    assert outcome.code == machinery.GATE_EXIT_CODE
    assert outcome.reason("preflight") == 'its output does not hold: Avg "bus" $bandwidth'
    assert "train" not in outcome.ends()


def test_gate_of_every_rank_names_the_ranks_that_lack_it(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        stage(
            "perf", "--print-on", "0", "E2E", "--print-on", "2", "E2E", gate=Gate(text="E2E", every_rank=True)
        ),
    )
    outcome = run_plan(plan, tmp_path)
    assert outcome.code == machinery.GATE_EXIT_CODE
    assert outcome.reason("perf") == 'of 4 ranks these did not print "E2E": 1, 3'


@pytest.mark.parametrize(("content", "how"), [(None, "is missing"), ("", "is empty")])
def test_expected_file_that_is_not_there_is_named(tmp_path: Path, content: str | None, how: str) -> None:
    path = tmp_path / "run" / 'it\'s "here" \\n.txt'
    if content is not None:
        path.parent.mkdir()
        path.write_text(content)
    plan = plan_of(
        tmp_path, stage("convert", expects=(Artifact(path=str(path), hint="see 'log'"),)), stage("perf")
    )
    outcome = run_plan(plan, tmp_path)
    assert outcome.code == machinery.ARTIFACT_EXIT_CODE
    assert outcome.reason("convert") == f"{path} {how}: see 'log'"
    assert outcome.ends() == {"convert": 66}


def test_first_check_that_fails_is_the_reason(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, stage("a", gate=Gate(text="never"), expects=(Artifact(path="never"),)))
    assert run_plan(plan, tmp_path).reason("a") == "its output does not hold: never"


def test_stage_over_its_time_is_ended_with_124(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, stage("hangs", "--sleep", "60", timeout_s=1), stage("next"))
    outcome = run_plan(plan, tmp_path)
    assert (outcome.code, outcome.ends()) == (machinery.TIMEOUT_EXIT_CODE, {"hangs": 124})
    assert outcome.reason("hangs") == "ended at its time limit of 1 s"


def test_program_that_answers_124_by_itself_is_no_time_limit(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, stage("fails", "--exit-on", "0", "124", timeout_s=600))
    assert run_plan(plan, tmp_path).reason("fails") == "node1: task 0: Exited with exit code 124"


def test_failing_set_up_line_ends_the_job(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, stage("train"), setup="echo first\n(exit 3)\necho never")
    outcome = run_plan(plan, tmp_path)
    assert outcome.code == 3
    assert outcome.ends() == {"set-up": 3}
    assert outcome.reason("set-up") == "a line of the set-up failed"
    assert "never" not in outcome.stdout
    assert outcome.sruns == []


def test_set_up_may_leave_its_variables_to_the_ranks(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, stage("train"), setup="export FROM_SET_UP='a  b'\n# a comment\nset -fu\nIFS=,4")
    outcome = run_plan(plan, tmp_path)
    assert (outcome.code, outcome.stderr) == (0, "")
    assert [program["env"]["FROM_SET_UP"] for program in outcome.programs] == ["a  b"] * 4


@pytest.mark.parametrize("ranks", [(0,), (1, 3)])
def test_nsys_wraps_the_chosen_ranks_and_no_other(tmp_path: Path, ranks: tuple[int, ...]) -> None:
    plan = plan_of(tmp_path, stage("perf", "a b", "$c", nsys=Nsys(ranks=ranks)))
    outcome = run_plan(plan, tmp_path)
    wrapped = [program for program in outcome.programs if program["program"] == "nsys"]
    assert sorted(program["rank"] for program in wrapped) == [str(rank) for rank in ranks]
    assert [p["arguments"] for p in outcome.programs if p["program"] == "nemo"] == [["a b", "$c"]] * 4
    reports = [report_path(plan.run_dir, "job", "perf", rank) for rank in ranks]
    assert sorted(str(path) for path in (tmp_path / "run" / "nsys").iterdir()) == sorted(reports)
    assert wrapped[0]["arguments"][:-2] == [
        *("-s", "none", "--capture-range=cudaProfilerApi", "--capture-range-end=stop"),
        *("--cuda-graph-trace=node", "--force-overwrite", "true"),
    ]


def test_missing_nsys_fails_the_job_at_once_and_is_named(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, stage("perf", "--sleep", "60", nsys=Nsys(binary="no such nsys")))
    outcome = run_plan(plan, tmp_path)
    host = subprocess.run(["hostname"], capture_output=True, text=True).stdout.strip()
    assert outcome.code == 127
    assert outcome.reason("perf") == (
        f"node1: task 0: Exited with exit code 127: no no such nsys on {host}: rank 0 was to be profiled"
    )


def test_steps_are_placed_by_all_three_numbers(tmp_path: Path) -> None:
    outcome = run_plan(SBATCH_PLANS["layouts"](str(tmp_path / "run")), tmp_path)
    placed = [
        [s["options"][key] for key in ("nodes", "ntasks", "ntasks-per-node", "mpi")] for s in outcome.sruns
    ]
    assert placed == [
        ["2", "8", "4", "none"],
        ["2", "2", "1", "pmi2"],
        ["1", "1", "1", "none"],
        ["1", "2", "2", "pmix"],
    ]
    assert [s["options"].get("cpus-per-task") for s in outcome.sruns] == ["2", None, None, "2"]


def test_script_of_256_nodes_is_that_of_2_but_for_the_number() -> None:
    for name, make in SBATCH_PLANS.items():
        if name == "directives":  # it lists its nodes
            continue
        plan = make(RUN_DIR)
        many = dataclasses.replace(plan, directives=dataclasses.replace(plan.directives, nodes=256))
        assert render_sbatch(many).replace("--nodes=256\n", "--nodes=2\n") == render_sbatch(plan)


def test_rendering_asks_nothing_but_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = {name: render_sbatch(make(RUN_DIR)) for name, make in SBATCH_PLANS.items()}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("rendering looked outside of the plan")

    for asked in (
        "builtins.open",
        "os.environ.get",
        "os.getcwd",
        "os.stat",
        "time.time",
        "socket.gethostname",
    ):
        monkeypatch.setattr(asked, refuse)
    assert {name: render_sbatch(make(RUN_DIR)) for name, make in SBATCH_PLANS.items()} == scripts


def test_no_script_traces_its_commands() -> None:
    for make in SBATCH_PLANS.values():
        assert not re.search(r"set -\w*x|xtrace", render_sbatch(make(RUN_DIR)))


def test_two_stages_have_the_flags_of_their_own(tmp_path: Path) -> None:
    outcome = run_plan(pgle(str(tmp_path / "run")), tmp_path)
    flags = {
        (p["env"].get("XLA_FLAGS") or "none").split(" ")[0]
        for p in outcome.programs
        if p["program"] == "paxml"
    }
    assert flags == {f"--xla_gpu_enable_latency_hiding_scheduler={value}" for value in ("true", "false")}
    assert [p["env"].get("XLA_FLAGS") for p in outcome.programs if p["program"] == "pgo_converter"] == [None]
    hosts = [p["arguments"][1:3] for p in outcome.programs if p["program"] == "paxml"]
    assert sorted(hosts) == sorted([["--num_hosts=4", f"--host_idx={rank}"] for rank in range(4)] * 2)


def test_a_rank_under_nsys_keeps_its_own_variables(tmp_path: Path) -> None:
    outcome = run_plan(nsys(str(tmp_path / "run")), tmp_path)
    perf = [p for p in outcome.programs if p["program"] == "nemo" and p["arguments"]]
    assert {(p["rank"], p["env"]["CUDA_VISIBLE_DEVICES"], p["arguments"][1]) for p in perf} == {
        (str(rank), str(rank % 2), str(rank)) for rank in range(4)
    }


def test_job_does_not_wait_for_what_the_set_up_left_running(tmp_path: Path) -> None:
    began = time.monotonic()
    outcome = run_plan(plan_of(tmp_path, stage("train"), setup="sleep 60 >/dev/null 2>&1 &"), tmp_path)
    assert outcome.code == 0
    assert time.monotonic() - began < 30
