"""What a plan refuses when it is made, and the texts that say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.plan import (
    Artifact,
    Container,
    Directives,
    Gate,
    Layout,
    LocalLauncher,
    NodeVar,
    Nsys,
    Plan,
    Secrets,
    Stage,
)
from cloudai_run.executors.render import render_sbatch
from cloudai_run.executors.render_local import render_local

_TRAIN = Stage(name="train", argv=("nemo",))


def plan(*stages: Stage, job_name: str = "job", run_dir: str = "/runs/1", **fields: object) -> Plan:
    """Returns a plan for one node."""
    return Plan(job_name=job_name, run_dir=run_dir, stages=stages or (_TRAIN,), **fields)  # pyright: ignore[reportArgumentType]


_REFUSALS: dict[str, tuple[Callable[[], object], str]] = {
    "variable's name": (
        lambda: Stage(name="a", argv=("x",), env={"NOT-A-NAME": "1"}),
        "'NOT-A-NAME' (stage a: env) is no name of an environment variable\n"
        "  right: letters, digits and _, the first one no digit",
    ),
    "variable's name with a digit": (
        lambda: NodeVar("1ST"),
        "'1ST' (NodeVar) is no name of an environment variable\n"
        "  right: letters, digits and _, the first one no digit",
    ),
    "NUL": (
        lambda: Stage(name="a", argv=("x", "a\0b")),
        "stage a: argument 1 holds a NUL character, which no program can be given",
    ),
    "surrogate": (
        lambda: Stage(name="a", argv=("x",), env={"A": "\udc80"}),
        "stage a: env['A'] holds '\\udc80', which UTF-8 cannot write",
    ),
    "number": (lambda: Stage(name="a", argv=("x", 5)), "stage a: argument 1 is 5: it must be a string"),  # pyright: ignore[reportArgumentType]
    "one text for all arguments": (
        lambda: Stage(name="a", argv="x y"),  # pyright: ignore[reportArgumentType]
        "stage a: argv is the text 'x y': give one string for each argument",
    ),
    "no program": (lambda: Stage(name="a"), "stage a must have either argv or script"),
    "two programs": (
        lambda: Stage(name="a", argv=("x",), script="y"),
        "stage a must have either argv or script",
    ),
    "program that would be an option": (
        lambda: Stage(name="a", argv=("--nodes=1", "x")),
        "stage a: '--nodes=1' is no name of a program",
    ),
    "stage's name": (
        lambda: Stage(name="a b", argv=("x",)),
        "Stage.name is 'a b'\n  right: letters, digits, '.', '_' and '-', the first a letter or digit, at most 100",
    ),
    "time of a stage": (
        lambda: Stage(name="a", argv=("x",), timeout_s=0),
        "stage a: timeout_s is 0: it must be a whole number of at least 1",
    ),
    "relative workdir": (
        lambda: Stage(name="a", argv=("x",), workdir="here"),
        "stage a: workdir is 'here': it must be an absolute path",
    ),
    "srun's option with a place of its own": (
        lambda: Stage(name="a", argv=("x",), srun={"mpi": "pmix"}),
        "stage a: srun cannot hold mpi: Stage has the field mpi",
    ),
    "job's name bash": (
        lambda: plan(job_name="bash"),
        "the job cannot be called 'bash': Lightning takes a job of that name for an interactive shell,"
        " ignores Slurm and hangs",
    ),
    "job's name interactive": (
        lambda: plan(job_name="interactive"),
        "the job cannot be called 'interactive': Lightning takes a job of that name for an interactive shell,"
        " ignores Slurm and hangs",
    ),
    "no stage": (
        lambda: Plan(job_name="j", run_dir="/r", stages=()),
        "a plan needs at least one stage",
    ),
    "same stage twice": (
        lambda: plan(_TRAIN, _TRAIN),
        "two stages are called train: their logs and records would mix",
    ),
    "name of a step": (
        lambda: plan(Stage(name="load-a", argv=("x",)), containers={"a": Container(image="i")}),
        "a stage cannot be called load-a: the script has a step of that name",
    ),
    "unknown container": (
        lambda: plan(Stage(name="a", argv=("x",), container="c"), containers={"nemo": Container(image="i")}),
        "stage a names the container 'c'; the plan's containers: nemo",
    ),
    "too many nodes": (
        lambda: plan(Stage(name="a", argv=("x",), nodes=2)),
        "stage a wants 2 nodes; the job has 1",
    ),
    "too many tasks": (
        lambda: plan(Stage(name="a", argv=("x",), ntasks_per_node=2)),
        "stage a wants 2 tasks a node; the job has 1",
    ),
    "relative run folder": (lambda: plan(run_dir="runs"), "run_dir is 'runs': it must be an absolute path"),
    "backslash in a path": (
        lambda: plan(run_dir="/a\\b"),
        "run_dir is '/a\\\\b': Slurm reads a backslash in a path as its own sign",
    ),
    "carriage return in the set-up": (
        lambda: plan(setup="true\r\n"),
        "Plan.setup has a carriage return, and sbatch refuses a script that has one",
    ),
    "secret in the run folder": (
        lambda: plan(secrets=Secrets(names=("A",), path="/runs/1/secret")),
        "the secrets' file /runs/1/secret lies in the run folder, which others may read",
    ),
    "secret in the open": (
        lambda: plan(env={"A": "1"}, secrets=Secrets(names=("A",), path="/s")),
        "A is a secret and is also set in the open (Plan.env)",
    ),
    "secret that is the shell's": (
        lambda: Secrets(names=("PATH",), path="/s"),
        "PATH cannot be a secret: the shell, the loader or Slurm sets it itself",
    ),
    "gate of two lines": (lambda: Gate(text="a\nb"), "Gate.text is 'a\\nb': it must be one line of text"),
    "artifact without a path": (
        lambda: Artifact(path=""),
        "Artifact.path is '': it must be one line of text",
    ),
    "mount": (
        lambda: Container(image="i", mounts=("/a",)),
        "'/a' in Container.mounts is no mount\n"
        "  right: SOURCE:TARGET or SOURCE:TARGET:FLAGS, TARGET absolute, no comma within",
    ),
    "image": (lambda: Container(image=""), "Container.image is '': it must be one line of text"),
    "run folder that cannot be mounted": (
        lambda: render_sbatch(
            plan(
                Stage(name="a", argv=("x",), container="c"),
                run_dir="/a,b",
                containers={"c": Container(image="i")},
            )
        ),
        "the run folder '/a,b' cannot be mounted: a path in a mount has no ':' and no ','",
    ),
    "nsys on no rank": (
        lambda: Nsys(ranks=()),
        "Nsys.ranks is (): it must name at least one rank, each once",
    ),
    "nsys's output": (
        lambda: Nsys(options={"o": "x"}),
        "Nsys.options cannot hold output: the reports lie in the run folder under nsys/",
    ),
    "nsys's option twice": (
        lambda: Nsys(options={"s": "cpu", "sample": "none"}),
        "Nsys.options gives sample twice",
    ),
    "nsys's option": (
        lambda: Nsys(options={"Trace": "cuda"}),
        "Nsys.options has 'Trace': an option of nsys profile has small letters and dashes",
    ),
    "program with = beside variables of the rank": (
        lambda: render_sbatch(plan(Stage(name="a", argv=("a=b",), env={"PATH": "/x"}))),
        "'a=b' cannot be started with PATH set: give a plain path",
    ),
    "container in a local run": (
        lambda: render_local(
            plan(Stage(name="a", argv=("x",), container="c"), containers={"c": Container(image="i")})
        ),
        "stage a runs in the container 'c'; a local run has none\n"
        "  give no container image, and what the stage needs on this machine",
    ),
    "local run on two nodes": (
        lambda: render_local(plan(directives=Directives(nodes=2))),
        "a local run has one node; the plan asks for 2",
    ),
    "gate of every rank where one process writes": (
        lambda: render_local(
            plan(
                Stage(
                    name="a",
                    argv=("x",),
                    gate=Gate(text="t", every_rank=True),
                    local_launcher=LocalLauncher.TORCHRUN,
                ),
                directives=Directives(ntasks_per_node=2),
            )
        ),
        "stage a: torchrun writes all ranks' output as one, and the gate asks for every rank's\n"
        "  use local_launcher=spawn",
    ),
}


@pytest.mark.parametrize("case", _REFUSALS)
def test_refusal_says_what_is_wrong(case: str) -> None:
    make, message = _REFUSALS[case]
    with pytest.raises(ExecutorError) as refused:
        make()
    assert str(refused.value) == message


def test_a_relative_artifact_lies_in_the_run_folder(tmp_path: Path) -> None:
    one = Stage(name="a", argv=("x",), layout=Layout.ONCE, expects=(Artifact(path="out/it's"),))
    assert """must_exist "$cr_run_dir"/"out/it's" ''""" in render_sbatch(plan(one))
