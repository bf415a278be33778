"""NeMo recipes as the launcher sees them."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cloudai_run.errors import UserError
from cloudai_run.frameworks import Config, Layout, RuleViolation
from cloudai_run.overrides import Override
from cloudai_run.overrides.schema import Tree
from cloudai_run.recipes.nemo import model_shape, recipe_tree, rules, schema
from cloudai_run.recipes.nemo.layout import read_layout

if TYPE_CHECKING:
    from nemo_run import Partial

CALLBACK = "nemo.lightning.pytorch.callbacks.nsys.NsysCallback"


class NemoFramework:
    """A NeMo recipe.

    Attributes:
        recipe: its name.
        schema: what is known of the NeMo version that it is checked against.
    """

    name = "nemo"

    def __init__(self, recipe: str, schema_id: str = schema.DEFAULT_ID) -> None:
        self.recipe = recipe
        self.schema = schema.load(schema_id)
        self.versions: Mapping[str, str] = self.schema.versions

    def for_image(self, image: str | None) -> NemoFramework:
        """Returns the same recipe checked against the schema that was exported from that image, if there is one."""
        schema_id = schema.for_image(image)
        return self if schema_id == self.schema.id else NemoFramework(self.recipe, schema_id)

    def recipe_tree(self) -> Config:
        """Returns the recipe's configuration with its workload node."""
        return recipe_tree(self.recipe, self.schema.id)

    def start(self, tree: Config, overrides: Sequence[Override]) -> Config:
        """NeMo's recipes are taken as they are."""
        del overrides
        return tree

    def layout_of(self, tree: Config) -> Layout:
        """Returns trainer.num_nodes and trainer.devices."""
        trainer = _node(tree, "trainer")
        return Layout(_whole(trainer.get("num_nodes"), 1), _whole(trainer.get("devices"), 1))

    def full_layout(self, tree: Config) -> Layout:
        """Returns the layout that the rules of a smoke run are checked in.

        It is the one that the user gave. NeMo's recipes say one node where they need more; there it is the smallest
        number of nodes that holds one model replica.
        """
        own = self.layout_of(tree)
        if own != self.layout_of(self.recipe_tree()):
            return own
        found = read_layout(tree, self.schema, own.num_nodes, own.num_gpus_per_node)
        if found is None:
            return own
        replica = found.tensor * found.pipeline * found.context
        nodes = math.lcm(replica, own.num_gpus_per_node) // own.num_gpus_per_node
        return own if found.gpus % replica == 0 else Layout(nodes, own.num_gpus_per_node)

    def with_layout(self, tree: Config, layout: Layout) -> Config:
        """Sets trainer.num_nodes and trainer.devices."""
        sizes: dict[str, Tree] = {"num_nodes": layout.num_nodes, "devices": layout.num_gpus_per_node}
        return {**tree, "trainer": {**_node(tree, "trainer"), **sizes}}

    def with_profiler(
        self, tree: Config, start_step: int | None, end_step: int | None, ranks: Sequence[int]
    ) -> Config:
        """Adds NeMo's NsysCallback, which calls cudaProfilerStart and Stop at those steps.

        Raises:
            UserError: the steps do not lie inside the run.
        """
        max_steps = _whole(_node(tree, "trainer").get("max_steps"), -1)
        first = (
            start_step
            if start_step is not None
            else (min(10, max(1, max_steps - 2)) if max_steps > 0 else 10)
        )
        last = end_step if end_step is not None else first + 1
        if last < first or (0 < max_steps <= last):
            raise UserError(
                f"nsys cannot profile steps {first} to {last} of {max_steps}\n"
                "  steps count from 0: run.plugins=nsys(start_step=2,end_step=3)"
            )
        tree = copy.deepcopy(tree)
        trainer = _node(tree, "trainer")
        callbacks = trainer.get("callbacks")
        callback: Tree = {"_target_": CALLBACK, "start_step": first, "end_step": last, "ranks": [*ranks]}
        trainer["callbacks"] = [*(callbacks if isinstance(callbacks, list) else []), callback]
        return tree

    def violations(self, tree: Config, layout: Layout) -> Sequence[RuleViolation]:
        """Returns the rules of Megatron Core and NeMo that the configuration breaks."""
        return rules.check(tree, self.schema, layout.num_nodes, layout.num_gpus_per_node)

    def notes(self, tree: Config) -> Sequence[str]:
        """Nothing beside the rules."""
        del tree
        return ()

    def smoke(self, tree: Config, layout: Layout) -> tuple[Config, list[str]]:
        """Shrinks the configuration for a CPU."""
        from cloudai_run.recipes.nemo import smoke

        processes = layout.num_nodes * layout.num_gpus_per_node
        shrunk, resets = smoke.cpu_smoke(tree, num_processes=processes, num_nodes=layout.num_nodes)
        return self.with_layout(shrunk, layout), resets

    def partial(self, tree: Config) -> Partial:
        """Returns the fiddle graph."""
        from cloudai_run.recipes.nemo.tree import from_tree

        return from_tree(tree, self.schema.id)

    def facts(self, tree: Config) -> dict[str, Tree]:
        """Returns batch, sequence, steps, precision and the model's shape for the run's record."""
        data, trainer = _node(tree, "data"), _node(tree, "trainer")
        return {
            "global_batch_size": data.get("global_batch_size"),
            "micro_batch_size": data.get("micro_batch_size"),
            "seq_length": data.get("seq_length"),
            "max_steps": trainer.get("max_steps"),
            "precision": model_shape.precision(tree),
            "model": model_shape.shape(tree, self.schema, self.recipe),
            "profiled_steps": profiled_steps(trainer),
            "container_image": _node(tree, "workload").get("container_image"),
            "env": _node(tree, "workload").get("env") or {},
            "stages": [{"name": "train", "framework": "nemo", "measured": True}],
        }

    def command(self, tree: Config, layout: Layout) -> tuple[str, ...]:
        """Returns what each rank runs."""
        from cloudai_run.stages import nemo_command

        return nemo_command(tree, layout.num_nodes, layout.num_gpus_per_node)

    def version_note(self, image: str) -> str | None:
        """Says against which NeMo the overrides were checked, unless the schema came from that image."""
        if self.schema.image == image:
            return None
        version = self.versions["nemo_toolkit"]
        found = re.search(r":v?(\d+\.\d+(?:\.\d+)?)", image)
        if found and found.group(1) == version:
            return None
        return f"overrides were checked against NeMo {version}; {image} may hold another (cloudai-run schema export)"


def profiled_steps(trainer: Mapping[str, Tree]) -> Tree:
    """Returns stage -> [first, last] of the steps that an NsysCallback profiles."""
    callbacks = trainer.get("callbacks")
    for callback in callbacks if isinstance(callbacks, list) else []:
        if isinstance(callback, dict) and str(callback.get("_target_", "")).endswith(".NsysCallback"):
            return {"train": [callback.get("start_step"), callback.get("end_step")]}
    return None


def _node(tree: Mapping[str, Tree], name: str) -> dict[str, Tree]:
    node = tree.get(name)
    if not isinstance(node, dict):
        raise UserError(f"the configuration has no {name}")
    return node


def _whole(value: Tree, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
