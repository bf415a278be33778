"""A cluster behind SSH: NeMo-Run's SSHTunnel against an sshd of the test's own on a loopback port."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import nemo_run as run
import pytest

from cloudai_run.executors.fetch import fetch_run
from cloudai_run.executors.jobs import outcome
from cloudai_run.executors.logs import read_logs
from cloudai_run.executors.stage_records import parse_stages
from cloudai_run.executors.states import JobState
from tests.slurm.lab import (
    Lab,
    bash,
    executor,
    job_output,
    launch_stages,
    wait_for_end,
    wait_for_stage,
    wait_until,
)
from tests.slurm.workloads import recipe

pytestmark = pytest.mark.slurm

NEEDLE = f"hf_{uuid.uuid4().hex}"
TOKEN = f"{NEEDLE}\n$x"


@pytest.fixture(scope="module")
def tunnel(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[run.SSHTunnel]:
    """An sshd with keys made here; the cluster's folder is another than the client's."""
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        "PasswordAuthentication no\nPermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\n"
        f'PidFile {folder}/pid\nSetEnv "SLURM_CONF={os.environ["SLURM_CONF"]}" "PATH={os.environ["PATH"]}"\n'
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    sshd = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(folder / "sshd_config")])
    # NeMo-Run's rsync calls ssh, which would ask whether to trust the host.
    known, wrapper = folder / "known_hosts", folder / "bin" / "ssh"
    known.write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -o UserKnownHostsFile={known} "$@"\n')
    wrapper.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{wrapper.parent}:{before}"
    wait_until(lambda: (folder / "pid").exists())
    yield run.SSHTunnel(
        host="127.0.0.1",
        user=getpass.getuser(),
        port=port,
        identity=str(folder / "user"),
        job_dir=str(folder / "cluster"),
    )
    os.environ["PATH"] = before
    sshd.terminate()
    sshd.wait()


def test_submit_wait_logs_and_report(
    lab: Lab, home: Path, tunnel: run.SSHTunnel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    expected = home.parent / "expected"
    expected.write_text(TOKEN)
    check = f'[ "$HF_TOKEN" = "$(cat {expected})" ] || exit 9; echo "it\'s here: $QUOTED"; sleep 2; echo over'
    submission = launch_stages(
        [{"name": "warm", "argv": ["true"]}, {"name": "train", "argv": bash(check)}],
        executor(nodes=2, tunnel=tunnel, env_vars={"QUOTED": "it's $HOME"}),
        title="remote",
    )
    assert submission.ssh is not None
    assert submission.cluster_dir.startswith(tunnel.job_dir)
    assert submission.cluster_dir != submission.run_dir
    wait_for_stage(submission, "train")
    assert submission.secret_file is not None
    assert submission.secret_file.startswith(f"{tunnel.job_dir}/.secrets/")
    end = wait_for_end(submission)
    assert (end.state, end.exit_code) == (JobState.COMPLETED, 0), end.text()
    lines = list(read_logs(submission.run_dir))
    assert lines == ["==> stage train, rank 0", "it's here: it's $HOME", "over"]
    assert not (Path(submission.run_dir) / "stages.jsonl").exists()
    fetch_run(submission.run_dir)
    runs = parse_stages((Path(submission.run_dir) / "stages.jsonl").read_text())
    assert [(one.stage, one.exit_code) for one in runs] == [("set-up", 0), ("warm", 0), ("train", 0)]
    assert "over" in (Path(submission.run_dir) / "logs/train/attempt-0/rank-0.log").read_text()
    assert '"stage": "train", "event": "end"' in job_output(submission)
    found = subprocess.run(
        [
            "grep",
            "-rlF",
            NEEDLE,
            str(home),
            tunnel.job_dir,
            str(lab.root / "state"),
            str(lab.root / "spool"),
        ],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert found == ""
    assert lab.node_processes(NEEDLE) == []


def test_nemo_run_waits_for_a_failure_and_tails_its_log(
    lab: Lab, home: Path, tunnel: run.SSHTunnel, capfd: pytest.CaptureFixture[str]
) -> None:
    stages = [{"name": "train", "argv": bash("echo begun; sleep 3; echo the cause; exit 4")}]

    def experiment() -> None:
        with run.Experiment("waits", enable_goodbye_message=False, skip_status_at_exit=True) as experiment:
            task = run.Partial(recipe, stages=stages)
            experiment.add(task, executor=executor(tunnel=tunnel), name="task", tail_logs=True)
            experiment.run()

    from cloudai_run.executors.outcome import JobFailedError

    with pytest.raises(JobFailedError) as raised:
        experiment()
    (end,) = raised.value.outcomes
    assert (end.state, end.exit_code, end.stage, end.log_line) == (JobState.FAILED, 4, "train", "the cause")
    assert "begun" in capfd.readouterr().out


def test_cancel_from_another_client(lab: Lab, home: Path, tunnel: run.SSHTunnel) -> None:
    submission = launch_stages(
        [{"name": "train", "argv": bash("sleep 60")}], executor(tunnel=tunnel), title="cancels"
    )
    wait_for_stage(submission, "train")
    again = run.Experiment.from_id(Path(submission.run_dir).parent.name)
    again.cancel("task")
    assert wait_for_end(submission).state is JobState.CANCELLED
    assert outcome(submission.run_dir).stage == "train"
