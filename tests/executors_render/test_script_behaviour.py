"""What a script does when all goes well and when something does not."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cloudai_run.executors import machinery
from cloudai_run.executors.nsys import report_path
from cloudai_run.executors.plan import (
    Artifact,
    Container,
    Gate,
    Layout,
    Nsys,
    Plan,
    Secrets,
)
from cloudai_run.executors.quoting import secret_file
from cloudai_run.executors.render import render_sbatch

from tests.executors_render.harness import (
    Outcome,
    install_fakes,
    plan_of,
    read_lines,
    run_plan,
    run_script,
    script_env,
    stage,
)
from tests.executors_render.plans import RUN_DIR, SBATCH_PLANS, containers, nsys, pgle


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


def test_container_is_loaded_once_and_named_after(tmp_path: Path) -> None:
    outcome = run_plan(containers(str(tmp_path / "run")), tmp_path)
    named = "nemo_4711_0"
    assert outcome.code == 0
    images = [
        (s["options"].get("container-image"), s["options"].get("container-name")) for s in outcome.sruns
    ]
    assert images == [
        ("nvcr.io#nvidia/pytorch:24.09-py3", None),
        ("/images/nemo 25.04.sqsh", named),
        *[(None, named)] * 3,
        (None, None),
    ]
    assert outcome.sruns[1]["command"] == ["true"]
    assert outcome.sruns[-1]["command"][-1] == named
    assert [s["options"].get("container-save") for s in outcome.sruns].count("/scratch/nemo-used.sqsh") == 1
    assert {s["options"]["reservation"] for s in outcome.sruns} == {"maintenance"}


def test_each_attempt_has_a_container_of_its_own(tmp_path: Path) -> None:
    outcome = run_plan(containers(str(tmp_path / "run")), tmp_path, attempt=2)
    assert {s["options"].get("container-name") for s in outcome.sruns} == {None, "nemo_4711_2"}


def test_value_of_the_user_wins_over_the_images(tmp_path: Path) -> None:
    image = {
        "FAKE_IMAGE_ENV": json.dumps({"XLA_FLAGS": "image", "NCCL_DEBUG": "image", "IMAGE_ONLY": "image"})
    }
    outcome = run_plan(containers(str(tmp_path / "run")), tmp_path, env=image)
    for program in (p for p in outcome.programs if p["program"] == "nemo"):
        assert program["env"]["XLA_FLAGS"] == "--xla_a=1 --xla_b=2"
        assert program["env"]["IMAGE_ONLY"] == "image"
    assert {p["env"]["NCCL_DEBUG"] for p in outcome.programs} == {"INFO", "image"}
    listed = [s["options"].get("container-env") for s in outcome.sruns]
    assert listed == [*["XLA_FLAGS"] * 3, "NCCL_DEBUG,XLA_FLAGS", "XLA_FLAGS", None]


def test_containers_are_removed_after_a_failure_too_and_do_not_change_the_exit_code(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        stage("one", container="nemo", layout=Layout.ONCE),
        stage("two", "--exit-on", "0", "9", container="nemo"),
        containers={"nemo": Container(image="/nemo.sqsh")},
    )
    outcome = run_plan(plan, tmp_path)
    assert outcome.code == 9
    assert outcome.sruns[-1]["command"][:2] == ["bash", "-c"]
    removed = sorted((tmp_path / "enroot.log").read_text().splitlines())
    assert removed == ["0 remove --force pyxis_nemo_4711_0", "1 remove --force pyxis_nemo_4711_0"]
    kept = run_plan(dataclasses.replace(plan, remove_containers=False), tmp_path / "kept")
    assert (kept.code, len(kept.sruns)) == (9, 3)


def test_reason_says_what_pyxis_said(tmp_path: Path) -> None:
    script = render_sbatch(containers(str(tmp_path / "run"))).replace("run_stage load-nemo", ": run_stage")
    outcome = run_script(script, tmp_path, run_dir=tmp_path / "run")
    assert outcome.reason("first") == (
        'node1: task 0: Exited with exit code 1: pyxis: a container with name "nemo_4711_0" does not exist'
    )


def test_container_of_a_job_scope_is_removed_under_its_name_too(tmp_path: Path) -> None:
    run_plan(containers(str(tmp_path / "run")), tmp_path, attempt=1)
    removed = (tmp_path / "enroot.log").read_text().splitlines()
    assert sorted(removed) == sorted(
        f"{node} remove --force {name}"
        for node in (0, 1)
        for name in ("pyxis_nemo_4711_1", "pyxis_4711_nemo_4711_1")
    )


def test_nothing_of_containers_without_one() -> None:
    for name in ("minimal", "quoting", "layouts", "nsys", "checks", "directives"):
        assert "container" not in render_sbatch(SBATCH_PLANS[name](RUN_DIR))


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


def secret_plan(folder: Path, values: str, *, mode: int = 0o600, **fields: Any) -> Plan:
    """Returns a plan with secrets whose file holds `values`."""
    path = folder / "secrets"
    path.write_text(values)
    path.chmod(mode)
    secrets = Secrets(names=("HF_TOKEN", "WANDB_API_KEY"), path=str(path))
    return plan_of(folder, stage("train"), secrets=secrets, **fields)


def test_secrets_reach_every_rank_and_stand_nowhere(tmp_path: Path) -> None:
    values = {"HF_TOKEN": "hf_secret\n'x' $y", "WANDB_API_KEY": "secret_w", "OTHER": "secret_o"}
    plan = secret_plan(tmp_path, secret_file(values))
    outcome = run_plan(plan, tmp_path)
    assert (outcome.code, outcome.stderr) == (0, "")
    for program in outcome.programs:
        assert {name: program["env"].get(name) for name in values} == values | {"OTHER": None}
    assert not (tmp_path / "secrets").exists()
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "programs.jsonl"]
    assert [path.name for path in left if b"secret_" in path.read_bytes() and path.parent.name != "bin"] == []


def test_secrets_of_the_users_own_file_are_lines_and_the_file_stays(tmp_path: Path) -> None:
    plan = secret_plan(tmp_path, "# mine\nWANDB_API_KEY=a=b c\nHF_TOKEN=hf_1", mode=0o400)
    assert plan.secrets is not None
    plan = dataclasses.replace(plan, secrets=dataclasses.replace(plan.secrets, remove=False))
    outcome = run_plan(plan, tmp_path)
    assert {(p["env"]["HF_TOKEN"], p["env"]["WANDB_API_KEY"]) for p in outcome.programs} == {
        ("hf_1", "a=b c")
    }
    assert (tmp_path / "secrets").exists()


@pytest.mark.parametrize(
    ("values", "mode", "reason"),
    [
        ("HF_TOKEN=1\n", 0o600, "the secrets' file {path} has no WANDB_API_KEY"),
        ("HF_TOKEN=1\nWANDB_API_KEY=2\n", 0o644, "the secrets' file {path} is not there, or not of mode 600"),
    ],
)
def test_bad_secrets_file_ends_the_job_before_any_stage(
    tmp_path: Path, values: str, mode: int, reason: str
) -> None:
    outcome = run_plan(secret_plan(tmp_path, values, mode=mode), tmp_path)
    assert (outcome.code, outcome.sruns) == (1, [])
    assert outcome.reason("set-up") == reason.format(path=tmp_path / "secrets")


def test_requeue_is_turned_off_at_the_last_attempt(tmp_path: Path) -> None:
    off = "update jobid=4711 requeue=0"
    plan = plan_of(tmp_path, stage("train"), retries=2)
    script = render_sbatch(plan)
    assert "\n#SBATCH --requeue\n" in script
    calls = [run_plan(plan, tmp_path / str(attempt), attempt=attempt).scontrol[1:] for attempt in (1, 2)]
    assert calls == [[], [off]]


def test_failed_stage_is_never_requeued(tmp_path: Path) -> None:
    outcome = run_plan(plan_of(tmp_path, stage("train", "--exit-on", "0", "1"), retries=2), tmp_path)
    assert outcome.scontrol[1:] == ["update jobid=4711 requeue=0"]
    assert "\n#SBATCH --no-requeue\n" in render_sbatch(plan_of(tmp_path, stage("train")))


def terminated(plan: Plan, folder: Path) -> Outcome:
    """Runs a plan, and sends its script and its srun SIGTERM once the program runs, as Slurm ends a job."""
    install_fakes(folder / "bin")
    Path(plan.run_dir).mkdir()
    script = folder / "script.sh"
    script.write_text(render_sbatch(plan))
    process = subprocess.Popen(
        ["bash", str(script)],
        env=script_env(folder, nodes=2, attempt=None, extra={}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(read_lines(folder / "programs.jsonl")) < 4:
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    for child in children:
        subprocess.run(["kill", child], check=True)
    stdout, stderr = process.communicate(timeout=30)
    return Outcome(
        code=process.returncode,
        stdout=stdout,
        stderr=stderr,
        run_dir=Path(plan.run_dir),
        sruns=read_lines(folder / "sruns.jsonl"),
        programs=read_lines(folder / "programs.jsonl"),
        scontrol=[],
    )


def test_job_that_is_told_to_end_records_the_end_and_keeps_what_another_attempt_needs(tmp_path: Path) -> None:
    plan = secret_plan(tmp_path, secret_file({"HF_TOKEN": "1", "WANDB_API_KEY": "2"}), retries=1)
    endless = stage("train", "--print", "step 1", "--sleep", "60")
    outcome = terminated(dataclasses.replace(plan, stages=(endless, stage("next"))), tmp_path)
    assert outcome.code == 137  # the stand-in kills its ranks, as a step that is forced to end
    assert outcome.ends() == {"set-up": 0, "train": 137}
    assert outcome.reason("train") == "the job was told to end (cancelled, out of time, or a node was lost)"
    assert "0: step 1" in outcome.log("train", "node-0-node1.log")
    assert (tmp_path / "secrets").exists()


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
