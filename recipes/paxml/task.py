"""The root of every PAXML recipe."""

from __future__ import annotations

import os
import subprocess
import tempfile

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.paxml.knobs import Knobs
from cloudai_run.recipes.paxml.nodes import Nsys, Pgle, Workload, XlaFlags


def pretrain(
    *, fdl_config: str, fdl: Knobs, xla: XlaFlags, pgle: Pgle, nsys: Nsys, workload: Workload
) -> None:
    """Trains an experiment of PAXML where this runs, in one process with the GPUs that it sees.

    An executor that knows recipes never calls this: it makes stages of the recipe (`stages_from`), and only there
    nsys can profile.

    Args:
        fdl_config: dotted path of the experiment class.
        fdl: its knobs; what is unset keeps the class's value.
        xla: XLA flags of the stages.
        pgle: whether and how a profile guides XLA.
        nsys: how ranks are profiled.
        workload: container, interpreter, environment.

    Raises:
        RecipeError: for what cannot run so, and for a stage that failed.
    """
    from cloudai_run.recipes.paxml.rules import profiles
    from cloudai_run.recipes.paxml.settings import Place, Settings
    from cloudai_run.recipes.paxml.stages import stage_specs_of

    settings = Settings(fdl_config, dict(vars(fdl)), xla, pgle, nsys, workload)
    if profiles(settings):
        raise RecipeError(
            f"{workload.factory} has a profile stage, which needs an executor of cloudai-run\n"
            "  without it: pgle.enabled=False, pgle.mode=auto, or pgle.profile=FILE"
        )
    run_dir = tempfile.mkdtemp(prefix="cloudai-run-paxml-")
    gpus = 1 if workload.smoke else workload.num_gpus_per_node
    place = Place(nodes=1, ntasks_per_node=1, gpus_per_node=gpus, local=True)
    for spec in stage_specs_of(settings, place=place, run_dir=run_dir):
        argv = [spec.plain(word) for word in spec.argv]
        env = {name: spec.plain(word) for name, word in spec.env.items()}
        code = subprocess.run(argv, env={**os.environ, **env}, check=False).returncode
        if code != 0:
            raise RecipeError(
                f"stage {spec.name} ended with exit code {code}; its output is above, its files are in {run_dir}"
            )


# An executor imports this name and asks the function for the stages of the recipe.
pretrain.stages_from = "cloudai_run.stages_paxml:paxml_stages"  # pyright: ignore[reportFunctionMemberAccess]
