"""SlurmExecutor's configuration: what reaches the plan, and what is refused with what to use instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fiddle as fdl
import nemo_run as run
import pytest
from nemo_run.core.serialization.zlib_json import ZlibJSONSerializer
from nemo_run.run.job import JobGroup

from cloudai_run.executors.errors import ExecutorError
from cloudai_run.executors.options import NsysOptions, Preflight
from cloudai_run.executors.placement import place_stages
from cloudai_run.executors.plan import Container, NodeVar, Stage
from cloudai_run.executors.planning import profiled
from cloudai_run.executors.slurm import SlurmExecutor
from tests.slurm.workloads import recipe


def dry_script(executor: SlurmExecutor, task: run.Partial | run.Script) -> str:
    with run.Experiment("dry", enable_goodbye_message=False) as experiment:
        experiment.add(task, executor=executor, name="task")
        experiment.dryrun(log=False)
        dry_run = experiment.jobs[0]._dryrun_info  # pyright: ignore[reportAttributeAccessIssue]  # no group
        assert dry_run is not None
        return dry_run.request.script


def directives(script: str) -> list[str]:
    lines = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH ")]
    return [line for line in lines if not line.startswith(("job-name", "open-mode", "output", "no-requeue"))]


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, ["nodes=1", "ntasks-per-node=1", "time=00:10:00"]),
        (
            {
                "account": "bench",
                "partition": "batch",
                "qos": "high",
                "nodes": 2,
                "ntasks_per_node": 8,
                "time": "1-12",
            },
            ["account=bench", "nodes=2", "ntasks-per-node=8", "partition=batch", "qos=high", "time=1-12"],
        ),
        ({"nodelist": "node[1-2]", "time": ""}, ["nodelist=node[1-2]", "ntasks-per-node=1"]),
        (
            {"gres": "gpu:8", "segment": 2, "switches": "1@60", "time": "", "exclusive": True, "mem": "0"},
            [
                "exclusive",
                "gres=gpu:8",
                "mem=0",
                "nodes=1",
                "ntasks-per-node=1",
                "segment=2",
                "switches=1@60",
            ],
        ),
        (
            {
                "time": "",
                "gpus_per_node": 4,
                "cpus_per_gpu": 8,
                "exclusive": "user",
                "additional_parameters": {"mail_type": "END"},
                "sbatch_extras": {"network": "sharp", "hold": None},
            },
            [
                "cpus-per-gpu=8",
                "exclusive=user",
                "gpus-per-node=4",
                "hold",
                "mail-type=END",
                "network=sharp",
                "nodes=1",
                "ntasks-per-node=1",
            ],
        ),
    ],
)
def test_fields_become_directives(fields: dict[str, Any], lines: list[str]) -> None:
    script = dry_script(SlurmExecutor(**fields), run.Script(inline="true"))
    assert directives(script) == lines


def test_srun_words_and_extras_reach_every_srun() -> None:
    executor = SlurmExecutor(srun_extras={"reservation": "r 1"}, container_image="a:b")
    executor.srun_args = ["--mem-bindd=none"]
    with pytest.raises(ExecutorError, match="srun has no option --mem-bindd"):
        executor.check()
    executor.srun_args = ["--mem-bind=none", "--overlap"]
    stages = [{"name": name, "argv": ["true"]} for name in ("a", "b")]
    script = dry_script(executor, run.Partial(recipe, stages=stages))
    assert script.count("set -- srun") == 3, "a load and two stages"
    for word in ("--mem-bind=none", "--overlap", "--reservation='r 1'"):
        assert script.count(f" {word} ") == 4, "these, and the one that removes the container"


REFUSALS: list[tuple[dict[str, Any], str]] = [
    (
        {"array": "0-3"},
        "SlurmExecutor does not take array\n"
        "  instead: one job runs one task: add a task to the Experiment for each variant",
    ),
    (
        {"heterogeneous": True},
        "SlurmExecutor does not take heterogeneous\n"
        "  instead: add a task for each kind of node, or use run.SlurmExecutor",
    ),
    (
        {"memory_measure": True},
        "SlurmExecutor does not take memory_measure\n  instead: make it a preflight, or a stage of the recipe",
    ),
    (
        {"container_env": ["NCCL_DEBUG"]},
        "container_env names NCCL_DEBUG, which env_vars does not set\n"
        "  instead: set it in env_vars; each variable there wins over the image's",
    ),
    ({"mpi": "openmpi"}, "mpi='openmpi': it must be one of none, pmix, pmi2"),
    (
        {"nsys": NsysOptions(capture="always")},
        "nsys.capture='always': it must be one of api, whole",
    ),
    (
        {"preflight": Preflight(argv=["true"], layout="everywhere")},
        "preflight.layout='everywhere': it must be one of all_ranks, once_per_node, once",
    ),
    (
        {"containers": {"host": "a:b"}},
        "containers cannot have the name 'host', which has a meaning of its own",
    ),
    ({"srun_args": ["-l"]}, "'-l' in srun_args is no option\n  right: --name or --name=value, one a word"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSALS, ids=[next(iter(fields)) for fields, _ in REFUSALS])
def test_refusals(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ExecutorError) as raised:
        SlurmExecutor(**fields)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        (
            run.FaultTolerance(),
            "SlurmExecutor does not take the launcher FaultTolerance\n"
            "  instead: launcher=None or 'torchrun', or run.SlurmExecutor",
        ),
        (
            run.SlurmTemplate(template_inline="{{ command }}"),
            "SlurmExecutor does not take the launcher SlurmTemplate\n"
            "  instead: launcher=None or 'torchrun', or run.SlurmExecutor",
        ),
        (
            run.Torchrun(nsys_profile=True),
            "SlurmExecutor does not take launcher.nsys_profile, which wraps every rank\n"
            "  instead: nsys=NsysOptions(ranks=[0])",
        ),
    ],
)
def test_launchers_that_write_scripts_of_their_own_are_refused(launcher: Any, message: str) -> None:
    with pytest.raises(ExecutorError) as raised:
        dry_script(SlurmExecutor(launcher=launcher), run.Script(inline="true"))
    assert str(raised.value) == message


def test_a_ray_cluster_is_refused() -> None:
    script = run.Script(inline="true", metadata={"use_with_ray_cluster": True})
    with pytest.raises((ExecutorError, AssertionError)):
        dry_script(SlurmExecutor(), script)


def test_it_survives_nemo_runs_clone_and_its_json() -> None:
    executor = SlurmExecutor(
        nodes=2,
        env_vars={"A": "it's", "B": NodeVar("SLURM_PROCID"), "C": ("a", NodeVar("SLURM_LOCALID"))},  # pyright: ignore[reportArgumentType]
        nsys=NsysOptions(ranks=[0, 3], options={"trace": "cuda", "s": None}),
        preflight=Preflight(argv=["pmix_hello"], mpi="pmix", gate="SUCCESS"),
        containers={"nccl": "nccl:2"},
        sbatch_extras={"hold": None},
        tunnel=run.SSHTunnel(host="h", user="u", job_dir="/d"),
    )
    assert executor.clone() == executor
    serializer = ZlibJSONSerializer()
    config = serializer.deserialize(serializer.serialize(executor.to_config()))
    assert fdl.build(config) == executor


def test_a_secret_in_the_environment_of_a_stage_is_refused() -> None:
    stages = [{"name": "train", "argv": ["true"], "env": {"WANDB_API_KEY": "x"}}]
    with pytest.raises(ExecutorError) as raised:
        dry_script(SlurmExecutor(), run.Partial(recipe, stages=stages))
    assert str(raised.value) == (
        "the environment of stage train holds the value of WANDB_API_KEY, which would end up in the script and in YAML"
        " files\n  instead: set WANDB_API_KEY in the environment that launches: it is passed on by name"
    )


def test_numbers_in_the_environment_are_text() -> None:
    numbers: dict[str, Any] = {"A": 1, "B": 0.5, "D": True}
    more: dict[str, Any] = {"E": 2}
    script = dry_script(SlurmExecutor(env_vars=numbers), run.Script(inline="true", env=more))
    for line in ("export A=1", "export B=0.5", "export D=True", "export E=2"):
        assert f"  {line}\n" in script


class Cluster(SlurmExecutor):
    """A class of a user's own."""


def test_a_subclass_of_a_users_own_is_registered_too() -> None:
    assert "#SBATCH" in dry_script(Cluster(), run.Script(inline="true"))


def test_it_is_no_member_of_a_job_group() -> None:
    assert SlurmExecutor not in JobGroup.SUPPORTED_EXECUTORS


DEFAULT = Container(image="train:1", save="/s.sqsh")
TEMPLATE = Container(image="unused", mounts=("/a:/a",), save="/s.sqsh")


def test_stages_find_their_containers() -> None:
    stages = [
        Stage(name=str(at), argv=("true",), container=container)
        for at, container in enumerate([None, "host", "nccl", "other:3", "train:1", "other:3"])
    ]
    placed, containers = place_stages(stages, DEFAULT, {"nccl": "nccl:2"}, TEMPLATE)
    assert [stage.container for stage in placed] == ["main", None, "nccl", "image2", "main", "image2"]
    assert containers == {
        "main": DEFAULT,
        "nccl": Container(image="nccl:2", mounts=("/a:/a",)),
        "image2": Container(image="other:3", mounts=("/a:/a",)),
    }
    placed, containers = place_stages(stages[:1], None, {}, TEMPLATE)
    assert (placed[0].container, containers) == (None, {})


def test_nsys_of_the_executor_leaves_a_recipes_own_alone() -> None:
    from cloudai_run.executors.plan import Layout, Nsys

    own = Nsys(ranks=(5,))
    stages = [
        Stage(name="load", argv=("true",), layout=Layout.ONCE_PER_NODE),
        Stage(name="profile", argv=("true",), nsys=own),
        Stage(name="perf", argv=("true",)),
    ]
    everywhere = profiled(stages, NsysOptions(ranks=[1]))
    assert [stage.nsys and stage.nsys.ranks for stage in everywhere] == [None, (5,), (1,)]
    named = profiled(stages, NsysOptions(stages=["load"]))
    assert [stage.nsys and stage.nsys.ranks for stage in named] == [(0,), (5,), None]
    with pytest.raises(ExecutorError, match=r"nsys\.stages names perff; the job has load, profile, perf"):
        profiled(stages, NsysOptions(stages=["perff"]))


def test_stages_that_cannot_be_imported_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.slurm.workloads.recipe.stages_from", "tests.slurm.workloads:no_such")
    with pytest.raises(ExecutorError) as raised:
        dry_script(SlurmExecutor(), run.Partial(recipe, stages=[]))
    assert str(raised.value) == (
        "the recipe's stages come from tests.slurm.workloads:no_such, which cannot be imported: "
        "module 'tests.slurm.workloads' has no attribute 'no_such'"
    )


def test_the_script_of_256_nodes_differs_by_the_number_alone(tmp_path: Path) -> None:
    stages = [{"name": "train", "argv": ["true"]}]
    two, many = (
        dry_script(SlurmExecutor(nodes=nodes, ntasks_per_node=8), run.Partial(recipe, stages=stages))
        for nodes in (2, 256)
    )
    differing = [(a, b) for a, b in zip(two.splitlines(), many.splitlines(), strict=True) if a != b]
    assert ("#SBATCH --nodes=2", "#SBATCH --nodes=256") in differing
    rest = [pair for pair in differing if "dry_" not in pair[0]]
    assert rest == [("#SBATCH --nodes=2", "#SBATCH --nodes=256")]
