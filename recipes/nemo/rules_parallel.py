"""Rules about parallel sizes and batch sizes.

Read in NeMo 2.7.3 (nemo/collections/llm/api.py, `_validate_config`) and Megatron Core 0.15
(parallel_state.py, `initialize_model_parallel`; num_microbatches_calculator.py; tensor_parallel/mappings.py;
moe/moe_layer.py; transformer_config.py, `__post_init__`; pipeline_parallel/schedules.py), December 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cloudai_run.recipes.nemo.layout import Layout, Violation

_S = "trainer.strategy"


def _model_parallel(layout: Layout) -> Iterator[Violation]:
    tensor, pipeline, context = layout.tensor, layout.pipeline, layout.context
    if layout.data_parallel is None:
        yield Violation(
            "model-parallel",
            "tensor x pipeline x context parallel size must divide the number of GPUs: "
            f"{tensor} x {pipeline} x {context} = {tensor * pipeline * context}, on {layout.gpus_text}",
        )


def _expert_parallel(layout: Layout) -> Iterator[Violation]:
    experts = layout.model.number("num_moe_experts")
    size = layout.expert_tensor * layout.expert * layout.pipeline
    if layout.expert > 1 and experts is None:
        yield Violation(
            "expert-parallel",
            f"expert parallel size must be 1 for a model without experts, it is {layout.expert}",
        )
    elif experts is not None and experts % layout.expert:
        yield Violation(
            "expert-parallel",
            f"expert parallel size must divide the experts: {layout.expert} does not divide {experts}",
        )
    if (layout.expert > 1 or experts is not None) and layout.gpus % size:
        yield Violation(
            "expert-parallel",
            "expert tensor x expert x pipeline parallel size must divide the number of GPUs: "
            f"{layout.expert_tensor} x {layout.expert} x {layout.pipeline} = {size}, on {layout.gpus_text}",
        )


def _global_batch(layout: Layout) -> Iterator[Violation]:
    total, micro = layout.data.number("global_batch_size"), layout.data.number("micro_batch_size")
    copies = layout.data_parallel
    if copies is None or total is None or micro is None:
        return
    share = micro * copies
    if total % share:
        yield Violation(
            "global-batch",
            "global batch size must be divisible by micro batch size x data parallel size: "
            f"{total} is not divisible by {micro} x {copies} = {share}",
        )
    ramp = layout.data.value("rampup_batch_size")
    if not isinstance(ramp, list) or not ramp:
        return
    numbers = [item for item in ramp if isinstance(item, int)]
    if len(ramp) != 3 or len(numbers) != 3 or min(numbers[:2]) < 1 or numbers[0] > total:
        yield Violation(
            "rampup-batch",
            "data.rampup_batch_size is [first batch size, increment, samples], the first at most the global "
            f"batch size: {ramp} with a global batch size of {total}",
        )
    elif (total - numbers[0]) % numbers[1] or numbers[0] % share or numbers[1] % share:
        yield Violation(
            "rampup-batch",
            "each batch size of a ramp-up must be divisible by micro batch size x data parallel size: "
            f"from {numbers[0]} by {numbers[1]} to {total}, with {micro} x {copies} = {share}",
        )


def _sequence_parallel(layout: Layout) -> Iterator[Violation]:
    on, size = layout.strategy.flag("sequence_parallel"), layout.tensor
    if on and size == 1:
        yield Violation(
            "sequence-parallel",
            "sequence parallel needs tensor parallel size > 1, it is 1: "
            f"set {_S}.sequence_parallel=False or {_S}.tensor_model_parallel_size",
        )
    if not on and size > 1 and layout.model.number("num_moe_experts") is not None:
        yield Violation(
            "moe-sequence-parallel",
            "a model with experts and tensor parallel size > 1 needs sequence parallel: "
            f"tensor parallel size is {size}, {_S}.sequence_parallel is False",
        )
    length = layout.data.number("seq_length")
    if on and length is not None and length % (size * layout.context):
        yield Violation(
            "sequence-parallel",
            "with sequence parallel, tensor x context parallel size must divide the sequence length: "
            f"{size} x {layout.context} = {size * layout.context} does not divide {length}",
        )


def _context_parallel(layout: Layout) -> Iterator[Violation]:
    if layout.context == 1:
        return
    parts = 2 * layout.context
    for name, node in (("data.seq_length", layout.data), ("model.config.seq_length", layout.model)):
        length = node.number("seq_length")
        if length is not None and length % parts:
            yield Violation(
                "context-parallel",
                f"{name} must be divisible by 2 x context parallel size: "
                f"{length} is not divisible by 2 x {layout.context} = {parts}",
            )


def _pipeline_layers(layout: Layout) -> Iterator[Violation]:
    layers = layout.model.number("num_layers")
    if layers is None or layout.strategy.value("pipeline_model_parallel_layout") is not None:
        return
    ends = ("num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")
    own = [size for size in map(layout.strategy.number, ends) if size is not None]
    flags = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
    extra = sum(layout.strategy.flag(flag) for flag in flags)
    rest, stages = layers + extra - sum(own), layout.pipeline - len(own)
    what = f"{layers} layers"
    if extra:
        what += f" and {extra} for embedding and loss"
    if own:
        what += f" less {' and '.join(map(str, own))} in the first and last stage"
    if extra and own:
        yield Violation(
            "pipeline-layers",
            f"{_S} takes either {' and '.join(flags)} or {' and '.join(ends)}: {what}",
        )
    elif rest < 0 or (stages <= 0 and (stages < 0 or rest)):
        yield Violation("pipeline-layers", f"{what} do not fit on {layout.pipeline} pipeline stages")
    elif stages and rest % stages:
        sum_ = f"{what} = {rest} on {stages} stages" if extra or own else f"{stages} does not divide {layers}"
        yield Violation("pipeline-layers", f"pipeline parallel size must divide the layers: {sum_}")
    else:
        yield from _virtual_pipeline(layout, own, rest, stages)


def _virtual_pipeline(layout: Layout, own: list[int], rest: int, stages: int) -> Iterator[Violation]:
    """The layers of each stage, those of an uneven first or last one too, are cut into virtual stages."""
    shares = {f"{rest} / {stages} = {rest // stages}": rest // stages} if stages else {}
    for said, share in {**shares, **{str(size): size for size in own}}.items():
        if layout.virtual and share % layout.virtual:
            yield Violation(
                "virtual-pipeline",
                "virtual pipeline size must divide the layers of a pipeline stage: "
                f"{layout.virtual} does not divide {said}",
            )


def _interleaved(layout: Layout) -> Iterator[Violation]:
    microbatches = layout.num_microbatches
    if layout.virtual is None or microbatches is None:
        return
    group = layout.strategy.number("microbatch_group_size_per_vp_stage") or layout.pipeline
    if not layout.pipeline <= group <= microbatches:
        yield Violation(
            "interleaved-schedule",
            "with a virtual pipeline, a step needs at least as many microbatches as pipeline stages: "
            f"{microbatches} microbatches in groups of {group} on {layout.pipeline} stages",
        )
    elif 0 < microbatches % group < layout.pipeline:
        yield Violation(
            "interleaved-schedule",
            "with a virtual pipeline, the last group of microbatches must be full or hold one a stage: "
            f"{microbatches} in groups of {group} leaves {microbatches % group} for {layout.pipeline} stages",
        )


def _pipeline_dtype(layout: Layout) -> Iterator[Violation]:
    # Without a dtype of its own the strategy takes that of the mixed precision plugin.
    mixed = layout.plugins.is_a("MegatronMixedPrecision")
    if layout.pipeline > 1 and layout.strategy.value("pipeline_dtype") is None and not mixed:
        yield Violation(
            "pipeline-dtype",
            f"pipeline parallel size {layout.pipeline} needs {_S}.pipeline_dtype or a mixed precision plugin, "
            f"both are None: set {_S}.pipeline_dtype=torch.bfloat16",
        )


PARALLEL_RULES: tuple[Callable[[Layout], Iterator[Violation]], ...] = (
    _model_parallel,
    _expert_parallel,
    _global_batch,
    _pipeline_layers,
    _interleaved,
    _pipeline_dtype,
    _sequence_parallel,
    _context_parallel,
)
