"""`cpu_smoke`: shrinks a NeMo recipe of any size so that a CPU trains it in seconds, by NeMo's own command.

What the user changed in the recipe is kept wherever a CPU can honour it; the rest is set back and told.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, overload

from cloudai_run.recipes.nemo.command import override_args, param_of, recipe_of, tree_of
from cloudai_run.recipes.nemo.schema import Tree
from cloudai_run.recipes.nemo.shrinking import Shrinking, argument_paths, node_at, show
from cloudai_run.recipes.nemo.tree import from_tree

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
    name: value
    for value, names in (
        (1, "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size"),
        (1, "expert_model_parallel_size expert_tensor_parallel_size"),
        (None, "virtual_pipeline_model_parallel_size hierarchical_context_parallel_sizes fsdp"),
        (None, "pipeline_model_parallel_layout num_layers_in_first_pipeline_stage"),
        (None, "num_layers_in_last_pipeline_stage use_transformer_engine_op_fuser symmetric_ar_type"),
        (
            False,
            "sequence_parallel account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split",
        ),
        (False, "tp_comm_overlap enable_cuda_graph external_cuda_graph use_te_rng_tracker cpu_offloading"),
        (
            False,
            "use_te_activation_func use_precision_aware_optimizer optimizer_cpu_offload use_sharp nccl_ub",
        ),
        ("none", "cuda_graph_impl"),
    )
    for name in names.split()
}
_LOW_PRECISION = ("fp8", "fp4")

# Fused kernels are CUDA's or TransformerEngine's, and its layer norm alone knows a zero-centered gamma.
_MODEL_CONFIG: Mapping[str, Tree] = {
    "use_cpu_initialization": True,
    "apply_rope_fusion": False,
    "gradient_accumulation_fusion": False,
    "masked_softmax_fusion": False,
    "persist_layer_norm": False,
    "layernorm_zero_centered_gamma": False,
    "moe_permute_fusion": False,
    "moe_grouped_gemm": False,
    "cross_entropy_fusion_impl": "native",
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
    given = tree_of(recipe)
    name, schema = recipe_of(given)
    tree = {key: copy.deepcopy(value) for key, value in given.items()}
    shrinking = Shrinking(tree, given, schema.recipe_tree(name), schema)
    _shrink_data(shrinking, num_processes)
    _shrink_model(shrinking)
    _leave_the_gpu(shrinking)
    _fit_trainer(shrinking, num_processes // num_nodes, num_nodes)
    dropped = _drop_callbacks(shrinking)
    tree["workload"] = {**node_at(tree, "workload"), "smoke": True}
    return (tree if isinstance(recipe, Mapping) else from_tree(tree)), shrinking.resets + dropped


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
    log = node_at(tree, "log")
    if log_dir is not None and log.get("log_dir") is None:
        tree = {**tree, "log": {**log, "log_dir": log_dir}}
    overrides = override_args(tree, schema.recipe_tree(name), schema)
    sizes = (f"trainer.num_nodes={num_nodes}", f"trainer.devices={num_processes_per_node}")
    return (python, shim, "llm", "pretrain", "--yes", "--factory", name, *overrides, *sizes)


def _shrink_data(shrinking: Shrinking, num_processes: int) -> None:
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


def _shrink_model(shrinking: Shrinking) -> None:
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
    if isinstance(shrinking.get("model.config.moe_layer_freq"), list):
        shrinking.put("model.config.moe_layer_freq", 1)  # One entry for each layer of the full size.


def _leave_the_gpu(shrinking: Shrinking) -> None:
    for path in list(argument_paths(shrinking.tree)):
        name = path.rpartition(".")[2]
        if name in _GPU_ONLY:
            shrinking.put(path, _GPU_ONLY[name])
        elif name.startswith(_LOW_PRECISION) and shrinking.is_users(path):
            parent = node_at(shrinking.tree, path.rpartition(".")[0])
            shrinking.put(path, param_of(shrinking.schema.target(str(parent["_target_"])), name).default)


def _fit_trainer(shrinking: Shrinking, num_processes_per_node: int, num_nodes: int) -> None:
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
    # The distributed optimizer's state cannot be saved without TransformerEngine's Adam.
    shrinking.put("log.ckpt.every_n_train_steps", None)
    shrinking.put("log.ckpt.save_optim_on_train_end", False)
    shrinking.put("log.wandb", None)


def _drop_callbacks(shrinking: Shrinking) -> list[str]:
    """Takes out the callbacks that need a GPU; returns a text for each that is not the recipe's."""
    before = shrinking.get("trainer.callbacks")
    if not isinstance(before, list):
        return []
    dropped = [callback for callback in before if show(callback).endswith(_GPU_CALLBACKS)]
    if dropped:
        node_at(shrinking.tree, "trainer")["callbacks"] = [item for item in before if item not in dropped]
    recipes = node_at(shrinking.recipe, "trainer").get("callbacks")
    own = recipes if isinstance(recipes, list) else []
    return [f"trainer.callbacks without {show(callback)}" for callback in dropped if callback not in own]
