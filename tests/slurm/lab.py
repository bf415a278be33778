"""The cluster of this folder as the tests see it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nemo_run as run

from cloudai_run.executors.jobs import outcome
from cloudai_run.executors.outcome import Outcome
from cloudai_run.executors.slurm import SlurmExecutor
from cloudai_run.executors.submission import Submission, read_submission
from tests.slurm.workloads import recipe

CLUSTER = Path(__file__).with_name("cluster.sh")


@dataclass(frozen=True)
class Lab:
    """A running cluster of eight nodes."""

    root: Path

    def command(self, *words: str) -> str:
        """Runs `cluster.sh WORDS`."""
        return subprocess.run([str(CLUSTER), *words], check=True, capture_output=True, text=True).stdout

    def slurm(self, *words: str) -> str:
        """Runs a command of Slurm's."""
        return subprocess.run(list(words), check=True, capture_output=True, text=True).stdout

    def image(self, name: str, env: str = "") -> str:
        """Makes an image that the stand-in of pyxis knows, with variables of its own; returns its name."""
        folder = self.root / "images" / "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "env").write_text(env)
        return name

    def container_log(self, job_id: str) -> list[str]:
        """What the stand-in of pyxis did for a job: `JOB.STEP NODE import|reuse ...`, a line for each node and step."""
        lines = (self.root / "containers" / "log").read_text().splitlines()
        return [line for line in lines if line.startswith(f"{job_id}.")]

    def containers(self) -> list[str]:
        """Names of the containers that lie on any node."""
        return sorted(path.name for path in (self.root / "containers").glob("node*/pyxis_*"))

    def node_processes(self, text: str) -> list[str]:
        """Command lines of processes that hold `text`."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:  # it ended meanwhile
                continue
            if text in line and int(path.parent.name) != os.getpid():
                found.append(line)
        return found


def executor(**fields: Any) -> SlurmExecutor:
    """An executor for short jobs."""
    return SlurmExecutor(**{"time": "2", **fields})


def launch(task: Any, on: SlurmExecutor, *, name: str = "task", title: str = "test") -> Submission:
    """Submits one task by NeMo-Run's Experiment, detached; returns the record of the submission."""
    with run.Experiment(
        title, executor=on, enable_goodbye_message=False, skip_status_at_exit=True
    ) as experiment:
        experiment.add(task, name=name)
        experiment.run(detach=True)
    submission = read_submission(experiment.jobs[0].executor.job_dir)
    assert submission is not None
    return submission


def launch_stages(stages: Sequence[dict[str, Any]], on: SlurmExecutor, **names: str) -> Submission:
    """Submits a recipe of these stages."""
    return launch(run.Partial(recipe, stages=list(stages)), on, **names)


def bash(text: str) -> list[str]:
    """The command of a stage that is a line of shell."""
    return ["bash", "-c", text]


def wait_until(what: Callable[[], Any], timeout_s: float = 60.0, interval_s: float = 0.2) -> Any:
    """Waits until `what` returns something true, and returns it."""
    end = time.monotonic() + timeout_s
    while True:
        got = what()
        if got:
            return got
        assert time.monotonic() < end, f"nothing came of it in {timeout_s} s"
        time.sleep(interval_s)


def wait_for_end(submission: Submission, timeout_s: float = 90.0) -> Outcome:
    """Waits for the end of a job."""
    end = time.monotonic() + timeout_s
    while True:
        now = outcome(submission.run_dir)
        if now.state.ended:
            return now
        assert time.monotonic() < end, f"no end in {timeout_s} s: {now.text()}\n{job_output(submission)}"
        time.sleep(0.2)


def job_output(submission: Submission) -> str:
    """The output of the job's script."""
    return "".join(path.read_text() for path in sorted(Path(submission.run_dir).glob("slurm-*.out")))


def wait_for_stage(submission: Submission, stage: str, timeout_s: float = 60.0) -> None:
    """Waits until a stage has started."""
    wait_until(lambda: outcome(submission.run_dir).stage == stage, timeout_s)
