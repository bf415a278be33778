"""What the user configures arrives at each rank of the real cluster byte for byte."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import nemo_run as run
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudai_run.executors.plan import NodeVar
from cloudai_run.executors.states import JobState
from tests.slurm import workloads
from tests.slurm.lab import Lab, bash, executor, job_output, launch, launch_stages, wait_for_end

pytestmark = pytest.mark.slurm

RANKS = 8
#: Any UTF-8 without NUL; text that shells, Slurm and JSON read in their own way comes up often.
TEXT = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
    st.text(st.sampled_from("\"'\\$`!;&|<>(){}[]*?~# \t\n\r=%,:@^+-äß漢😀"), max_size=25),
    st.sampled_from(
        [
            "MOD 8",
            '"already quoted"',
            "it's",
            "$HOME",
            "${HOME}",
            "$(touch pwned)",
            "`touch pwned`",
            "a;touch pwned",
            "--a=1 --b=2",
            '{"a": [1, "x y"]}',
            "a$b",
            "%j %N %%",
            "\\n",
            "ends with \\",
            "line\nbreak\n",
            "mlx5_0,mlx5_1",
            "--a=1,--b=x=y",
            "EOF",
            " ",
            "",
            "!history!",
            "$'\\x41'",
            "\x01\x1b[31m\x7f",
            "\r\n",
        ]
    ),
)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).map(lambda name: f"cr_TEST_{name}")

RANK = """
import hashlib, json, os, sys
words = [hashlib.sha256(word).hexdigest() for word in map(os.fsencode, sys.argv[2:])]
env = {name.decode(): hashlib.sha256(value).hexdigest()
       for name, value in os.environb.items() if name.startswith(b"cr_TEST_") or name in (b"XLA_FLAGS", b"no_proxy")}
with open(os.path.join(sys.argv[1], os.environ["SLURM_PROCID"] + ".json"), "w") as file:
    json.dump({"words": words, "env": env}, file)
"""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@given(
    env=st.dictionaries(NAMES, TEXT, min_size=110, max_size=110),
    words=st.lists(TEXT, min_size=110, max_size=110),
)
@settings(
    max_examples=1,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.large_base_example,
    ],
)
def test_220_values_arrive_at_each_rank(
    lab: Lab, home: Path, tmp_path: Path, env: dict[str, str], words: list[str]
) -> None:
    image = lab.image("jax:1", env="XLA_FLAGS=--of=the --image=1\n")
    env = {
        **env,
        "cr_TEST_big": "ü" * 50_000,  # 100 kB
        "XLA_FLAGS": "--xla_a=1 --xla_b=2  --xla_c='x y'",
        "no_proxy": "small letters",
    }
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "rank.py").write_text(RANK)
    submission = launch_stages(
        [{"name": "train", "argv": ["python", str(tmp_path / "rank.py"), str(out), *words, "-" * 100_000]}],
        executor(nodes=2, ntasks_per_node=RANKS // 2, env_vars=env, container_image=image),
    )
    end = wait_for_end(submission)
    assert end.state is JobState.COMPLETED, f"{end.text()}\n{job_output(submission)}"
    got = {path.stem: json.loads(path.read_text()) for path in out.iterdir()}
    assert sorted(got, key=int) == [str(rank) for rank in range(RANKS)]
    for rank in got.values():
        assert rank["words"] == [digest(word) for word in [*words, "-" * 100_000]]
        assert rank["env"] == {name: digest(value) for name, value in env.items()}
    assert not (Path(submission.run_dir) / "pwned").exists()
    assert not (Path(submission.run_dir) / "code" / "pwned").exists()


def test_a_variable_of_the_rank_expands_there(lab: Lab, home: Path) -> None:
    submission = launch_stages(
        [{"name": "train", "argv": bash('echo "$DEVICE|$PLAIN|$HOST_IDX"')}],
        executor(
            nodes=2,
            ntasks_per_node=2,
            env_vars={
                "DEVICE": NodeVar("SLURM_LOCALID"),
                "PLAIN": "$SLURM_LOCALID",
                "HOST_IDX": ("--host_idx=", NodeVar("SLURM_PROCID")),
            },
        ),
    )
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    assert (Path(submission.run_dir) / "configs" / "task_executor.yaml").exists()
    logs = Path(submission.run_dir).glob("logs/train/attempt-0/node-*.log")
    lines = sorted(line for path in logs for line in path.read_text().splitlines())
    assert lines == [f"{rank}: {rank % 2}|$SLURM_LOCALID|--host_idx={rank}" for rank in range(4)]


HOSTILE = {"cr_quotes": 'it\'s "q" $HOME `x` \\', "Cr_Lines": "a\nb", "http_proxy": "http://p:1/?a=b&c=d;e"}


def test_a_partial_of_the_users_own_gets_the_same_bytes(lab: Lab, home: Path, tmp_path: Path) -> None:
    task = run.Partial(workloads.write_environment, folder=str(tmp_path), names=list(HOSTILE))
    paths = {"PYTHONPATH": str(Path(__file__).parents[2])}
    submission = launch(task, executor(nodes=2, ntasks_per_node=1, env_vars={**HOSTILE, **paths}))
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    for rank in range(2):
        for name, value in HOSTILE.items():
            assert (tmp_path / f"{rank}.{name}").read_bytes() == value.encode()


def test_a_script_of_the_users_own_gets_the_same_bytes(lab: Lab, home: Path, tmp_path: Path) -> None:
    words = ["a b", "$HOME", "it's", "", 'q"q', "*", "ä"]
    path = tmp_path / "with space.sh"
    path.write_text('for word; do printf "<%s>" "$word"; done; printf "<%s>" "$cr_quotes"')
    submission = launch(
        run.Script(path=str(path), args=words, env={"cr_quotes": HOSTILE["cr_quotes"]}), executor()
    )
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    (log,) = Path(submission.run_dir).glob("logs/task/attempt-0/rank-0.log")
    assert log.read_text().rstrip("\n") == "".join(f"<{word}>" for word in [*words, HOSTILE["cr_quotes"]])


def test_an_inline_script_runs_in_a_container(lab: Lab, home: Path) -> None:
    image = lab.image("plain:1")
    script = run.Script(inline="head -n 1 /etc/pyxis_standin\npwd\nls -d /nemo_run/configs\n")
    submission = launch(script, executor(container_image=image))
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    (log,) = Path(submission.run_dir).glob("logs/task/attempt-0/rank-0.log")
    name, folder, configs = log.read_text().splitlines()
    assert name.startswith("name=pyxis_")
    assert folder == f"{submission.run_dir}/code"
    assert configs == "/nemo_run/configs"


def test_torchrun_starts_from_the_first_node(lab: Lab, home: Path, tmp_path: Path) -> None:
    """torchrun itself is a stand-in here: it prints its arguments."""
    torchrun = tmp_path / "torchrun"
    torchrun.write_text('#!/bin/bash\nprintf "<%s>" "$@"\necho\n')
    torchrun.chmod(0o755)
    script = run.Script(path="train me.py", args=["--flag", "x y"], entrypoint="python")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    submission = launch(script, executor(nodes=2, ntasks_per_node=4, launcher="torchrun", env_vars=env))
    assert wait_for_end(submission).state is JobState.COMPLETED, job_output(submission)
    logs = Path(submission.run_dir).glob("logs/task/attempt-0/node-*.log")
    lines = sorted(line for path in logs for line in path.read_text().splitlines())
    assert len(lines) == 2, "one torchrun a node"
    for rank, line in enumerate(lines):
        assert "<--rdzv-endpoint><node1:29500>" in line
        assert f"<--nnodes><2><--nproc-per-node><4><--node-rank><{rank}>" in line
        assert line.endswith("<train me.py><--flag><x y>")
