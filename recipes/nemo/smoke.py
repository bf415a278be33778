"""`cpu_smoke`: shrinks a NeMo recipe of any size so that a CPU trains it in seconds, by NeMo's own command.

What the user changed in the recipe is kept wherever a CPU can honour it; the rest is set back and told.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, overload

from cloudai_run.recipes.nemo.command import is_node, override_args, param_of, recipe_of, same_tree, tree_of
from cloudai_run.recipes.nemo.schema import Schema, Tree
from cloudai_run.recipes.nemo.tree import MARKS, from_tree

if TYPE_CHECKING:
    import nemo_run as run

SHIM_FILE = Path(__file__).parent / "cpu_shim.py"
"""The stand-alone file that runs `nemo` on a CPU; it may be copied anywhere."""

DEFAULT_STEPS = 5
"""trainer.max_steps of a smoke run whose user did not set it."""

_MOCK_DATA = "nemo.collections.llm.gpt.data.mock.MockDataModule"
# The mock data's own tokenizer would be downloaded; this one is made up of numbers.
_TOKENIZER: Tree = {
    "_target_": "nemo.collections.common.tokenizers.tokenizer_utils.get_nmt_tokenizer",
    "library": "null",
    "model_name": "NullTokenizer",
    "vocab_size": 256,
}

# path: (size in a smoke run, largest size of the user's that a CPU still runs in seconds). None stays None.
_SIZES = {
    "model.config.num_layers": (2, 8),
    "model.config.hidden_size": (64, 512),
    "model.config.ffn_hidden_size": (128, 2048),
    "model.config.num_attention_heads": (4, 16),
    "model.config.num_query_groups": (4, 16),
    "model.config.num_moe_experts": (4, 8),
    "model.config.moe_ffn_hidden_size": (128, 512),
    "model.config.moe_shared_expert_intermediate_size": (128, 512),
    "model.config.moe_router_topk": (2, 4),
    "data.seq_length": (64, 512),
    "data.micro_batch_size": (1, 8),
}
_LARGEST_GLOBAL_BATCH = 64

# What needs a GPU, several of them, or TransformerEngine, wherever in the tree it is set.
_GPU_ONLY: Mapping[str, Tree] = {
    **dict.fromkeys(
        ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"), 1
    ),
    **dict.fromkeys(("expert_model_parallel_size", "expert_tensor_parallel_size"), 1),
    **dict.fromkeys(("virtual_pipeline_model_parallel_size", "hierarchical_context_parallel_sizes"), None),
    **dict.fromkeys(("pipeline_model_parallel_layout", "fsdp"), None),
    **dict.fromkeys(("num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"), None),
    **dict.fromkeys(("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"), False),
    **dict.fromkeys(
        ("sequence_parallel", "tp_comm_overlap", "enable_cuda_graph", "external_cuda_graph"), False
    ),
    **dict.fromkeys(("use_te_rng_tracker", "use_precision_aware_optimizer", "cpu_offloading"), False),
}
_LOW_PRECISION = ("fp8", "fp4")

# Fused kernels are CUDA's or TransformerEngine's, and its layer norm alone knows a zero-centered gamma.
_MODEL_CONFIG: Mapping[str, Tree] = {
    "use_cpu_initialization": True,
    **dict.fromkeys(("apply_rope_fusion", "gradient_accumulation_fusion", "masked_softmax_fusion"), False),
    **dict.fromkeys(("persist_layer_norm", "layernorm_zero_centered_gamma"), False),
}
# They ask the GPU for its generation or its memory.
_GPU_CALLBACKS = ("MegatronCommOverlapCallback", "MemoryProfileCallback", "DeepEPCallback")


@overload
def cpu_smoke(
    recipe: run.Partial, num_processes: int = 1, num_nodes: int = 1
) -> tuple[run.Partial, list[str]]: ...
@overload
def cpu_smoke(
    recipe: Mapping[str, Tree], num_processes: int = 1, num_nodes: int = 1
) -> tuple[dict[str, Tree], list[str]]: ...
def cpu_smoke(
    recipe: run.Partial | Mapping[str, Tree], num_processes: int = 1, num_nodes: int = 1
) -> tuple[run.Partial | dict[str, Tree], list[str]]:
    """Returns a recipe shrunk for CPUs, and what of the user's had to be set back; `recipe` stays as it is.

    Args:
        recipe: A recipe's tree or run.Partial; what differs from the recipe of its name is the user's.
        num_processes: All processes of the run, which train data parallel.
        num_nodes: Nodes that they are spread over.

    Returns:
        The recipe in the form it was given in, and one text for each reset:
        `trainer.strategy.tensor_model_parallel_size 4 -> 1`.

    Raises:
        RecipeError: The recipe does not say what it was made from.
    """
    tree = dict(copy.deepcopy(tree_of(recipe)))
    name, schema = recipe_of(tree)
    shrinking = _Shrinking(tree, schema.recipe_tree(name), schema)
    _shrink_data(shrinking, num_processes)
    _shrink_model(shrinking)
    _leave_the_gpu(shrinking)
    _fit_trainer(shrinking, num_processes // num_nodes, num_nodes)
    tree["workload"] = {**_node_at(tree, "workload"), "smoke": True}
    return (tree if isinstance(recipe, Mapping) else from_tree(tree)), shrinking.resets


def smoke_argv(
    recipe: run.Partial | Mapping[str, Tree],
    python: str = sys.executable,
    shim: str = str(SHIM_FILE),
    num_nodes: int = 1,
    num_processes_per_node: int = 1,
    log_dir: str | None = None,
) -> tuple[str, ...]:
    """Returns the command that trains a shrunk recipe on the CPU.

    Several processes on a node are to be started by torchrun or as Slurm tasks, each with this same command.

    Args:
        recipe: What `cpu_smoke` returned.
        python: Interpreter of an environment with NeMo.
        shim: Where SHIM_FILE is, or a copy of it.
        num_nodes: Nodes of the run.
        num_processes_per_node: Processes on each.
        log_dir: Where NeMo writes, unless the recipe sets log.log_dir; None leaves it to NeMo.

    Raises:
        RecipeError: NeMo's command line cannot carry a value.
    """
    tree = tree_of(recipe)
    name, schema = recipe_of(tree)
    log = _node_at(tree, "log")
    if log_dir is not None and log.get("log_dir") is None:
        tree = {**tree, "log": {**log, "log_dir": log_dir}}
    overrides = override_args(tree, schema.recipe_tree(name), schema)
    sizes = (f"trainer.num_nodes={num_nodes}", f"trainer.devices={num_processes_per_node}")
    return (python, shim, "llm", "pretrain", "--yes", "--factory", name, *overrides, *sizes)


@dataclass
class _Shrinking:
    """A tree while it is shrunk, and what of the user's was set back."""

    tree: dict[str, Tree]
    recipe: Mapping[str, Tree]
    schema: Schema
    resets: list[str] = field(default_factory=list)

    def get(self, path: str) -> Tree:
        """Returns the value at a path, or the default if it is not set; None if there is no such path."""
        parent, _, name = path.rpartition(".")
        node = _node_at(self.tree, parent)
        if name in node or "_target_" not in node:
            return node.get(name)
        return param_of(self.schema.target(str(node["_target_"])), name).default

    def has(self, path: str) -> bool:
        """Says whether the node above a path takes the parameter that it names."""
        parent, _, name = path.rpartition(".")
        target = _node_at(self.tree, parent).get("_target_")
        return target is not None and name in self.schema.target(str(target)).params

    def is_users(self, path: str) -> bool:
        """Says whether the value at a path is set and is not the recipe's."""
        parent, _, name = path.rpartition(".")
        ours, recipes = _node_at(self.tree, parent), _node_at(self.recipe, parent)
        return name in ours and (name not in recipes or not same_tree(ours[name], recipes[name]))

    def put(self, path: str, value: Tree) -> None:
        """Sets a value where it differs and the node takes it."""
        before = self.get(path)
        if not same_tree(before, value) and self.has(path):
            if self.is_users(path):
                self.resets.append(f"{path} {_show(before)} -> {_show(value)}")
            parent, _, name = path.rpartition(".")
            _node_at(self.tree, parent)[name] = value

    def shrink(self, path: str, size: int, largest: int) -> None:
        """Sets a size, unless the user's own is small enough."""
        before = self.get(path)
        is_small = isinstance(before, int) and 0 < before <= largest
        if before is not None and not (is_small and self.is_users(path)):
            self.put(path, size)

    def size(self, path: str, default: int) -> int:
        """Returns a whole number at a path."""
        value = self.get(path)
        return value if isinstance(value, int) else default


def _node_at(tree: Mapping[str, Tree], path: str) -> dict[str, Tree]:
    node: Tree = tree if isinstance(tree, dict) else dict(tree)
    for name in path.split(".") if path else ():
        node = node.get(name) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def _show(value: Tree) -> str:
    if is_node(value):
        return str(value.get("_factory_") or str(value["_target_"]).rpartition(".")[2])
    return str(value)


def _shrink_data(shrinking: _Shrinking, num_processes: int) -> None:
    if not str(shrinking.get("data._target_")).endswith("MockDataModule"):
        shrinking.put("data", {"_target_": _MOCK_DATA})
    shrinking.put("data.tokenizer", _TOKENIZER)
    for path in ("data.seq_length", "data.micro_batch_size"):
        shrinking.shrink(path, *_SIZES[path])
    shrinking.put("data.rampup_batch_size", None)
    step = shrinking.size("data.micro_batch_size", 1) * num_processes
    batch = shrinking.size("data.global_batch_size", 0)
    if not shrinking.is_users("data.global_batch_size") or batch % step or batch > _LARGEST_GLOBAL_BATCH:
        shrinking.put("data.global_batch_size", 2 * step)
    # Workers and pinned memory would take longer to start than the run.
    for name, value in (("num_workers", 0), ("pin_memory", False), ("persistent_workers", False)):
        if not shrinking.is_users(f"data.{name}"):
            shrinking.put(f"data.{name}", value)


def _shrink_model(shrinking: _Shrinking) -> None:
    for path, (size, largest) in _SIZES.items():
        if path.startswith("model."):
            shrinking.shrink(path, size, largest)
    hidden, heads, groups = (
        f"model.config.{name}" for name in ("hidden_size", "num_attention_heads", "num_query_groups")
    )
    # Rotary embeddings turn pairs, so that each head has an even size.
    if shrinking.size(hidden, 64) % (2 * shrinking.size(heads, 4)):
        shrinking.put(heads, _SIZES[heads][0])
    if shrinking.size(hidden, 64) % (2 * shrinking.size(heads, 4)):
        shrinking.put(hidden, _SIZES[hidden][0])
    if shrinking.size(heads, 4) % shrinking.size(groups, 1):
        shrinking.put(groups, shrinking.get(heads))
    shrinking.put("model.config.seq_length", shrinking.get("data.seq_length"))
    for name, value in _MODEL_CONFIG.items():
        shrinking.put(f"model.config.{name}", value)


def _leave_the_gpu(shrinking: _Shrinking) -> None:
    for path in list(_paths(shrinking.tree)):
        name = path.rpartition(".")[2]
        if name in _GPU_ONLY:
            shrinking.put(path, _GPU_ONLY[name])
        elif name.startswith(_LOW_PRECISION) and shrinking.is_users(path):
            parent = _node_at(shrinking.tree, path.rpartition(".")[0])
            shrinking.put(path, param_of(shrinking.schema.target(str(parent["_target_"])), name).default)


def _paths(node: Mapping[str, Tree], above: str = "") -> Iterator[str]:
    """Yields the path of each argument of each node, but for those in lists."""
    for name, value in node.items():
        if name not in MARKS and (above or name != "workload"):
            path = f"{above}.{name}" if above else name
            yield path
            if is_node(value):
                yield from _paths(value, path)


def _fit_trainer(shrinking: _Shrinking, num_processes_per_node: int, num_nodes: int) -> None:
    shrinking.put("trainer.accelerator", "cpu")
    shrinking.put("trainer.devices", num_processes_per_node)
    shrinking.put("trainer.num_nodes", num_nodes)
    shrinking.put("trainer.enable_checkpointing", False)
    if not shrinking.is_users("trainer.max_steps"):
        shrinking.put("trainer.max_steps", DEFAULT_STEPS)
    max_steps, interval = shrinking.size("trainer.max_steps", -1), shrinking.get("trainer.val_check_interval")
    if isinstance(interval, int) and 0 < max_steps < interval:
        shrinking.put("trainer.val_check_interval", max_steps)
    shrinking.put("trainer.limit_val_batches", 0)
    shrinking.put("log.wandb", None)
    _drop_callbacks(shrinking)


def _drop_callbacks(shrinking: _Shrinking) -> None:
    before = shrinking.get("trainer.callbacks")
    if isinstance(before, list):
        kept = [callback for callback in before if not _show(callback).endswith(_GPU_CALLBACKS)]
        recipes = _node_at(shrinking.recipe, "trainer").get("callbacks")
        dropped = [callback for callback in before if callback not in kept]
        own = recipes if isinstance(recipes, list) else []
        shrinking.resets += [
            f"trainer.callbacks without {_show(callback)}" for callback in dropped if callback not in own
        ]
        _node_at(shrinking.tree, "trainer")["callbacks"] = kept
