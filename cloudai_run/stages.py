"""Where recipes and executors meet: the stages of a plan, made from a recipe's fiddle graph.

A recipe's target names one of these functions in `stages_from`; an executor imports it by that name.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cloudai_run.executors.plan import Allocation, LocalLauncher, Stage

if TYPE_CHECKING:
    from fiddle import Buildable

TRAIN = "train"


def nemo_stages(partial: Buildable, allocation: Allocation) -> tuple[Stage, ...]:
    """Returns the one stage of a NeMo recipe: `nemo llm pretrain ...` on all ranks, without MPI.

    Several local ranks are started by torchrun; under Slurm, Lightning reads the ranks from Slurm's variables.

    Raises:
        RecipeError: a value that NeMo's command line cannot carry.
    """
    from cloudai_run.recipes.nemo.command import pretrain_argv
    from cloudai_run.recipes.nemo.smoke import SHIM_FILE, smoke_argv
    from cloudai_run.recipes.nemo.tree import to_tree

    tree = to_tree(partial)
    workload = partial.workload
    per_node = allocation.ntasks_per_node
    if workload.smoke:
        argv = smoke_argv(tree, python=sys.executable, shim=str(SHIM_FILE), num_nodes=allocation.nodes,
                          num_processes_per_node=per_node, log_dir=f"{allocation.run_dir}/results")  # fmt: skip
    else:
        argv = pretrain_argv(tree, allocation.nodes, per_node)
    several = allocation.local and per_node > 1
    return (
        Stage(
            name=TRAIN,
            argv=tuple(argv),
            env=dict(workload.env or {}),
            local_launcher=LocalLauncher.TORCHRUN if several else LocalLauncher.SELF,
        ),
    )
