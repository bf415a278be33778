"""Several stages in one allocation of the real cluster. pyxis, enroot and nsys are stand-ins (see cluster.sh)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nemo_run as run
import pytest

from cloudai_run.executors.options import Preflight
from cloudai_run.executors.outcome import JobFailedError
from cloudai_run.executors.stage_records import parse_stages
from cloudai_run.executors.states import JobState
from cloudai_run.executors.submission import read_submission
from tests.slurm.lab import Lab, bash, executor, job_output, launch_stages, wait_for_end
from tests.slurm.workloads import recipe

pytestmark = pytest.mark.slurm


def test_preflight_load_and_two_stages_on_64_ranks(lab: Lab, home: Path) -> None:
    image = lab.image("nvcr.io#test/train:1")
    preflight = Preflight(
        argv=["pmix_hello"], mpi="pmix", gate="of 64, fence: SUCCESS", every_rank=True, container="host"
    )
    submission = launch_stages(
        [
            {
                "name": "profile",
                "argv": bash("echo profile $SLURM_PROCID of $SLURM_NTASKS; echo $SLURM_MPI_TYPE"),
            },
            {"name": "perf", "argv": bash("cat /etc/pyxis_standin; echo perf on $(hostname)")},
        ],
        executor(nodes=8, ntasks_per_node=8, container_image=image, preflight=preflight),
    )
    end = wait_for_end(submission)
    assert end.state is JobState.COMPLETED, job_output(submission)

    log = lab.container_log(submission.job_id)
    imports = [line.split()[1] for line in log if line.split()[2] == "import"]
    assert sorted(imports) == [f"node{k}" for k in range(1, 9)], "one import a node"
    assert len([line for line in log if line.split()[2] == "reuse"]) == 16, "two stages on eight nodes"
    assert not [name for name in lab.containers() if f"_{submission.job_id}_" in name], (
        "the job's containers are gone"
    )

    runs = parse_stages((Path(submission.run_dir) / "stages.jsonl").read_text())
    assert [(run.stage, run.exit_code, len(run.nodes)) for run in runs] == [
        ("preflight", 0, 8),
        ("load-main", 0, 8),
        ("profile", 0, 8),
        ("perf", 0, 8),
    ]
    logs = Path(submission.run_dir) / "logs"
    hellos = "".join(path.read_text() for path in (logs / "preflight/attempt-0").glob("node-*.log"))
    assert hellos.count("of 64, fence: SUCCESS") == 64
    profile = "".join(path.read_text() for path in (logs / "profile/attempt-0").glob("node-*.log"))
    assert {f"profile {rank} of 64" in profile for rank in range(64)} == {True}
    assert "pmix" not in profile


CLIENT = """
import sys
import nemo_run as run
from tests.slurm.lab import executor
from tests.slurm.workloads import recipe
stages = [
    {"name": "profile", "argv": ["bash", "-c", "[ $SLURM_PROCID != 11 ] || { echo no such mesh; exit 9; }; sleep 20"]},
    {"name": "perf", "argv": ["bash", "-c", "echo never"]},
]
on = executor(nodes=8, ntasks_per_node=8)
run.run(run.Partial(recipe, stages=stages), executor=on, name="fails", tail_logs=False)
print("the client went on")
"""


def test_a_failed_stage_fails_the_job_and_the_client(lab: Lab, home: Path) -> None:
    client = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, check=False)
    assert client.returncode == 1
    assert "the client went on" not in client.stdout
    (run_dir,) = (path.parent for path in home.glob("experiments/fails/*/fails/submission.json"))
    submission = read_submission(run_dir)
    assert submission is not None
    last = client.stderr.strip().splitlines()[-2:]
    assert last == [
        f"cloudai_run.executors.outcome.JobFailedError: job {submission.job_id} FAILED in stage profile with exit code"
        " 9 on node2: node2: task 11: Exited with exit code 9",
        "  last line of its log: no such mesh",
    ]
    sacct = lab.slurm("sacct", "-X", "-n", "-P", "-j", submission.job_id, "--format=State,ExitCode")
    assert sacct.strip() == "FAILED|9:0"
    assert not (Path(run_dir) / "logs" / "perf").exists(), "the next stage never starts"


def test_nsys_wraps_rank_0_of_64_alone(lab: Lab, home: Path, tmp_path: Path) -> None:
    """With the recording stand-in of nsys: it says who was wrapped and with which options, and profiles nothing."""
    log = tmp_path / "nsys.log"
    submission = launch_stages(
        [
            {
                "name": "train",
                "argv": bash("echo rank $SLURM_PROCID"),
                "nsys": {"options": {"trace": "cuda,nvtx"}},
            }
        ],
        executor(nodes=8, ntasks_per_node=8, env_vars={"CLOUDAI_RUN_NSYS_LOG": str(log)}),
    )
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    (line,) = log.read_text().splitlines()
    host, rank, *options = line.split()
    assert (host, rank) == ("node1", "0")
    report = f"{submission.run_dir}/nsys/task.train.rank0"
    assert [path.name for path in (Path(submission.run_dir) / "nsys").iterdir()] == [
        "task.train.rank0.nsys-rep"
    ]
    text = " ".join(options)
    for wanted in (
        "-s none",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--trace=cuda,nvtx",
    ):
        assert wanted in text
    assert report in text
    logs = "".join(
        path.read_text() for path in Path(submission.run_dir).glob("logs/train/attempt-0/node-*.log")
    )
    assert logs.count(": rank ") == 64


def test_nsys_that_is_not_there_fails_the_job_at_once(lab: Lab, home: Path) -> None:
    submission = launch_stages(
        [{"name": "train", "argv": ["sleep", "60"], "nsys": {"binary": "nsys-2031"}}], executor(nodes=1)
    )
    end = wait_for_end(submission, timeout_s=20)
    assert (end.state, end.exit_code, end.stage) == (JobState.FAILED, 127, "train")
    assert end.log_line == "error: no nsys-2031 on node1: rank 0 was to be profiled"


def test_several_images_in_one_job(lab: Lab, home: Path) -> None:
    nccl, train = lab.image("nccl:2"), lab.image("train:2")
    submission = launch_stages(
        [
            {"name": "nccl", "argv": bash("grep image /etc/pyxis_standin"), "container": nccl},
            {"name": "warm", "argv": bash("grep image /etc/pyxis_standin")},
            {"name": "perf", "argv": bash("grep image /etc/pyxis_standin; pwd")},
        ],
        executor(nodes=2, container_image=train, container_workdir="/tmp"),
    )
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    imports = [line.split() for line in lab.container_log(submission.job_id) if " import " in line]
    assert sorted((words[1], words[4]) for words in imports) == [
        ("node1", f"image={nccl}"),
        ("node1", f"image={train}"),
        ("node2", f"image={nccl}"),
        ("node2", f"image={train}"),
    ]
    last = (Path(submission.run_dir) / "logs/perf/attempt-0/rank-0.log").read_text()
    assert last == f"image={train}\n/tmp\n"


def test_a_missing_image_fails_the_job_in_its_load(lab: Lab, home: Path) -> None:
    submission = launch_stages(
        [{"name": "warm", "argv": ["true"]}, {"name": "perf", "argv": ["true"]}],
        executor(nodes=2, container_image="no/such:image"),
    )
    end = wait_for_end(submission)
    assert (end.state, end.stage) == (JobState.FAILED, "load-main")


def test_an_experiment_raises_when_its_block_ends(lab: Lab, home: Path) -> None:
    stages = [{"name": "train", "argv": bash("exit 3")}]

    def experiment() -> None:
        with run.Experiment("raises", executor=executor(), enable_goodbye_message=False) as experiment:
            experiment.add(run.Partial(recipe, stages=stages), name="task")
            experiment.run()

    with pytest.raises(JobFailedError) as raised:
        experiment()
    (end,) = raised.value.outcomes
    assert (end.state, end.exit_code, end.stage) == (JobState.FAILED, 3, "train")


def test_the_first_failing_set_up_line_fails_the_job(lab: Lab, home: Path) -> None:
    submission = launch_stages(
        [{"name": "train", "argv": ["true"]}],
        executor(setup_lines="echo before\ncat /no/such/file\necho after"),
    )
    end = wait_for_end(submission)
    assert (end.state, end.exit_code, end.stage) == (JobState.FAILED, 1, "set-up")
    assert end.log_line == "cat: /no/such/file: No such file or directory"
    assert "after" not in job_output(submission)
