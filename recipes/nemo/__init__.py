"""NeMo 2.0 recipes: their configuration trees as data, and the fiddle graphs built from it.

Each factory returns the recipe of that name in NeMo, as a `run.Partial` whose nodes stand for NeMo's classes: NeMo
need not be installed. A derived recipe calls a factory and sets attributes:

    recipe = llama3_8b(num_nodes=2)
    recipe.trainer.max_steps = 50
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from cloudai_run.recipes.nemo import schema as schemas

if TYPE_CHECKING:
    import nemo_run as run
    from typing_extensions import Unpack


class Settings(TypedDict, total=False):
    """What each factory takes beside the size of the run.

    Attributes:
        container_image: The container image to run in. A schema that was exported in it is used.
        env: Environment variables of the training process.
        smoke: Whether to shrink the recipe so that one process trains it on a CPU: not a benchmark.
        schema_id: The schema to use, whatever the image.
    """

    container_image: str | None
    env: Mapping[str, str] | None
    smoke: bool
    schema_id: str | None


def nemo_recipe(
    name: str,
    num_nodes: int | None = None,
    num_gpus_per_node: int | None = None,
    *,
    container_image: str | None = None,
    env: Mapping[str, str] | None = None,
    smoke: bool = False,
    schema_id: str | None = None,
) -> run.Partial:
    """Returns any recipe of the schema by the name that `nemo llm pretrain --factory` takes.

    Args:
        name: The recipe's name.
        num_nodes: How many nodes; None leaves what the recipe says.
        num_gpus_per_node: How many GPUs on each node; None leaves what the recipe says.
        container_image: The container image to run in. A schema that was exported in it is used.
        env: Environment variables of the training process.
        smoke: Whether to shrink the recipe so that one process trains it on a CPU: not a benchmark.
        schema_id: The schema to use, whatever the image.

    Raises:
        RecipeError: The schema has no recipe of that name.
    """
    from cloudai_run.recipes.nemo.tree import from_tree

    used = schema_id or schemas.for_image(container_image)
    recipe = from_tree(recipe_tree(name, used, container_image=container_image, env=env), used)
    if smoke:
        from cloudai_run.recipes.nemo.smoke import cpu_smoke

        return cpu_smoke(recipe)[0]
    if num_nodes is not None:
        recipe.trainer.num_nodes = num_nodes
    if num_gpus_per_node is not None:
        recipe.trainer.devices = num_gpus_per_node
    return recipe


def recipe_tree(
    name: str,
    schema_id: str = schemas.DEFAULT_ID,
    *,
    container_image: str | None = None,
    env: Mapping[str, str] | None = None,
) -> dict[str, schemas.Tree]:
    """Returns the tree of a recipe with its workload, without importing NeMo-Run.

    Raises:
        RecipeError: The schema has no recipe of that name.
    """
    workload: dict[str, schemas.Tree] = {
        "_target_": "cloudai_run.recipes.nemo.workload.Workload",
        "factory": name,
        "schema_id": schema_id,
    }
    if container_image is not None:
        workload["container_image"] = container_image
    if env:
        workload["env"] = dict(env)
    return {**schemas.load(schema_id).recipe_tree(name), "workload": workload}


def llama3_8b(num_nodes: int = 1, num_gpus_per_node: int = 8, **settings: Unpack[Settings]) -> run.Partial:
    """Llama 3 8B, sequence length 8192, global batch size 512."""
    return nemo_recipe("llama3_8b", num_nodes, num_gpus_per_node, **settings)


def llama3_70b(num_nodes: int = 1, num_gpus_per_node: int = 8, **settings: Unpack[Settings]) -> run.Partial:
    """Llama 3 70B, sequence length 8192, global batch size 512."""
    return nemo_recipe("llama3_70b", num_nodes, num_gpus_per_node, **settings)


def llama31_8b(num_nodes: int = 1, num_gpus_per_node: int = 8, **settings: Unpack[Settings]) -> run.Partial:
    """Llama 3.1 8B, sequence length 8192, global batch size 512."""
    return nemo_recipe("llama31_8b", num_nodes, num_gpus_per_node, **settings)


def llama31_70b(num_nodes: int = 1, num_gpus_per_node: int = 8, **settings: Unpack[Settings]) -> run.Partial:
    """Llama 3.1 70B, sequence length 8192, global batch size 512."""
    return nemo_recipe("llama31_70b", num_nodes, num_gpus_per_node, **settings)


def llama31_405b(num_nodes: int = 1, num_gpus_per_node: int = 8, **settings: Unpack[Settings]) -> run.Partial:
    """Llama 3.1 405B, sequence length 8192, global batch size 512."""
    return nemo_recipe("llama31_405b", num_nodes, num_gpus_per_node, **settings)


def nemotron4_15b(
    num_nodes: int = 1, num_gpus_per_node: int = 8, **settings: Unpack[Settings]
) -> run.Partial:
    """Nemotron-4 15B, sequence length 4096, global batch size 32."""
    return nemo_recipe("nemotron4_15b", num_nodes, num_gpus_per_node, **settings)


def nemotron4_340b(
    num_nodes: int = 768, num_gpus_per_node: int = 8, **settings: Unpack[Settings]
) -> run.Partial:
    """Nemotron-4 340B, sequence length 4096, global batch size 2304."""
    return nemo_recipe("nemotron4_340b", num_nodes, num_gpus_per_node, **settings)


def mixtral_8x7b(num_nodes: int = 8, num_gpus_per_node: int = 8, **settings: Unpack[Settings]) -> run.Partial:
    """Mixtral 8x7B, sequence length 4096, global batch size 512."""
    return nemo_recipe("mixtral_8x7b", num_nodes, num_gpus_per_node, **settings)


def gpt3_175b(num_nodes: int = 1, num_gpus_per_node: int = 8, **settings: Unpack[Settings]) -> run.Partial:
    """GPT-3 175B, sequence length 2048, global batch size 2048."""
    return nemo_recipe("gpt3_175b", num_nodes, num_gpus_per_node, **settings)
