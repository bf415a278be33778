"""Where recipes and executors meet: the stages of a plan, made from a recipe's fiddle graph.

A recipe's target names one of these functions in `stages_from`; an executor imports it by that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cloudai_run.executors.plan import Allocation, LocalLauncher, Stage
from cloudai_run.recipes.nemo.schema import Tree

if TYPE_CHECKING:
    from fiddle import Buildable

TRAIN = "train"


def nemo_command(
    tree: Mapping[str, Tree], num_nodes: int, per_node: int, log_dir: str | None = None
) -> tuple[str, ...]:
    """Returns what each rank of a NeMo recipe runs: `nemo llm pretrain ...`, in a smoke run through the CPU shim.

    Args:
        tree: the recipe's configuration.
        num_nodes: nodes of the executor.
        per_node: ranks on each.
        log_dir: where a smoke run writes its own files; None leaves NeMo's default.

    Raises:
        RecipeError: a value that NeMo's command line cannot carry.
    """
    workload = tree.get("workload")
    if isinstance(workload, Mapping) and workload.get("smoke"):
        from cloudai_run.recipes.nemo.smoke import smoke_argv

        return smoke_argv(tree, num_nodes=num_nodes, num_processes_per_node=per_node, log_dir=log_dir)
    from cloudai_run.recipes.nemo.command import pretrain_argv

    return pretrain_argv(tree, num_nodes, per_node)


def nemo_stages(partial: Buildable, allocation: Allocation) -> tuple[Stage, ...]:
    """Returns the one stage of a NeMo recipe, on all ranks and without MPI.

    Several local ranks are started by torchrun; under Slurm, Lightning reads the ranks from Slurm's variables.

    Raises:
        RecipeError: a value that NeMo's command line cannot carry.
    """
    from cloudai_run.recipes.nemo.schema import load
    from cloudai_run.recipes.nemo.tree import check, schema_id_of, to_tree

    tree = to_tree(partial)
    # In Python a class with **kwargs takes any name that is assigned to it.
    check(tree, load(schema_id_of(tree)))
    workload = tree["workload"]
    assert isinstance(workload, dict)
    env, image = workload.get("env"), workload.get("container_image")
    per_node = allocation.ntasks_per_node
    argv = nemo_command(tree, allocation.nodes, per_node, f"{allocation.run_dir}/results")
    several = allocation.local and per_node > 1
    launcher = LocalLauncher.TORCHRUN if several else LocalLauncher.SELF
    if several and workload.get("smoke"):
        # The environment of a smoke run need not be on PATH, so that torchrun is called by its module.
        python, *words = argv
        argv = (python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={per_node}", *words)
        launcher = LocalLauncher.SELF
    return (
        Stage(
            name=TRAIN,
            argv=argv,
            env={name: str(value) for name, value in env.items()} if isinstance(env, dict) else {},
            container=str(image) if image else None,
            local_launcher=launcher,
        ),
    )
