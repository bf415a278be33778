"""The numbers of a recipe that the rules relate: its parallel sizes, its batch sizes and its model's shape.

A number that the recipe does not set is the default of its target in the schema: `model.config` of llama3_8b
has 32 layers although the recipe says nothing about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudai_run.recipes.nemo.schema import Schema


@dataclass(frozen=True)
class Violation:
    """A rule that a configuration breaks.

    Attributes:
        rule: the rule's name: stable, for tests and for JSON.
        message: the rule and the numbers, in one line.
    """

    rule: str
    message: str


@dataclass(frozen=True)
class Node:
    """A config node with the defaults of its target; a missing node has no values."""

    tree: Mapping[str, object]
    schema: Schema

    @property
    def target(self) -> str:
        """The dotted name of what the node calls, or ''."""
        return str(self.tree.get("_target_", ""))

    def child(self, name: str) -> Node:
        """Returns the node that a parameter holds; an empty one where it holds something else."""
        value = self.tree.get(name)
        return Node(value if isinstance(value, Mapping) else {}, self.schema)

    def value(self, name: str) -> object:
        """Returns what the tree sets, else the target's default, else None."""
        if name in self.tree:
            return self.tree[name]
        target = self.schema.targets.get(self.target)
        param = target.params.get(name) if target is not None else None
        return param.default if param is not None and param.has_default else None

    def number(self, name: str) -> int | None:
        """Returns an integer, or None where the value is none."""
        value = self.value(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, name: str) -> bool:
        """Returns whether a boolean is set to true."""
        return self.value(name) is True

    def is_a(self, short_name: str) -> bool:
        """Whether the target is a class of that name (without its module) or a subclass of one."""
        target = self.schema.targets.get(self.target)
        names = (self.target, *(target.bases if target is not None else ()))
        return any(name.rpartition(".")[2] == short_name for name in names)


@dataclass(frozen=True)
class Layout:
    """How a recipe lies on GPUs.

    Attributes:
        num_nodes: nodes of the executor.
        num_gpus_per_node: GPUs on each of them.
        tensor, pipeline, context, expert, expert_tensor: the parallel sizes.
        virtual: virtual pipeline size; None without one, or where one pipeline stage makes NeMo drop it.
        strategy, model, data, plugins: the nodes that further values are read from; `plugins` is the first
            of several.
    """

    num_nodes: int
    num_gpus_per_node: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    expert_tensor: int
    virtual: int | None
    strategy: Node
    model: Node
    data: Node
    plugins: Node

    @property
    def gpus(self) -> int:
        """All GPUs of the run."""
        return self.num_nodes * self.num_gpus_per_node

    @property
    def gpus_text(self) -> str:
        """The number of GPUs as a message says it: `2 nodes x 8 = 16`."""
        nodes = f"{self.num_nodes} node{'s' * (self.num_nodes > 1)}"
        return f"{nodes} x {self.num_gpus_per_node} = {self.gpus} GPUs"

    @property
    def data_parallel(self) -> int | None:
        """The data parallel size; None where the other sizes do not divide the GPUs."""
        size = self.tensor * self.pipeline * self.context
        return None if self.gpus % size else self.gpus // size

    @property
    def num_microbatches(self) -> int | None:
        """Microbatches of one step and pipeline; None where the sizes do not divide."""
        global_size, micro_size = self.data.number("global_batch_size"), self.data.number("micro_batch_size")
        if self.data_parallel is None or not global_size or not micro_size:
            return None
        share = micro_size * self.data_parallel
        return None if global_size % share else global_size // share


def read_layout(
    tree: Mapping[str, object], schema: Schema, num_nodes: int, num_gpus_per_node: int
) -> Layout | None:
    """Returns the layout of a recipe's tree, or None where its strategy is not Megatron's."""
    root = Node(tree, schema)
    strategy = root.child("trainer").child("strategy")
    if not strategy.is_a("MegatronStrategy"):
        return None
    plugins = root.child("trainer").value("plugins")
    precision = [plugins] if isinstance(plugins, Mapping) else plugins if isinstance(plugins, list) else []
    mixed = [node for node in precision if isinstance(node, Mapping)]

    def size(name: str, default: int = 1) -> int:
        found = strategy.number(name)
        return default if found is None else found

    tensor, pipeline = size("tensor_model_parallel_size"), size("pipeline_model_parallel_size")
    return Layout(
        num_nodes=num_nodes,
        num_gpus_per_node=num_gpus_per_node,
        tensor=tensor,
        pipeline=pipeline,
        context=size("context_parallel_size"),
        expert=size("expert_model_parallel_size"),
        expert_tensor=size("expert_tensor_parallel_size", tensor),
        virtual=strategy.number("virtual_pipeline_model_parallel_size") if pipeline > 1 else None,
        strategy=strategy,
        model=root.child("model").child("config"),
        data=root.child("data"),
        plugins=Node(mixed[0] if mixed else {}, schema),
    )
