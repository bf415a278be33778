"""PAXML experiment classes of the project's own, built on PAXML's public base classes.

Upstream PAXML has no Nemotron; its NVIDIA classes have no way to end after so many steps; and Grok exists only in
containers. This file imports nothing of the project: it is copied into the run folder and stands on PYTHONPATH there,
so that `--fdl_config=cloudai_run_paxml.Nemotron4_340B` finds it.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# ruff: noqa: RUF012 (an experiment class is its class attributes)

from __future__ import annotations

from paxml import tasks_lib
from paxml.tasks.lm.params import c4, lm_cloud, nvidia
from praxis import base_input, base_layer, layers, pax_fiddle
from praxis.layers import activations, glam, multi_query_attention
from praxis.layers.injection import fp8_nvidia_gpu as fp8_ops

# Far beyond any benchmark: evaluation and checkpoints would stand between the timed steps.
NEVER = 1_000_000_000


class _Steps:
    """Ends a run after MAX_STEPS, and trains without evaluating in between."""

    MAX_STEPS = 20
    EVAL_INTERVAL_STEPS = NEVER
    CHECKPOINT_EVERY_N_STEPS = NEVER

    def task(self) -> pax_fiddle.Config[tasks_lib.SingleTask]:
        task_p = super().task()
        task_p.train.num_train_steps = self.MAX_STEPS
        return task_p

    def datasets(self) -> list[pax_fiddle.Config[base_input.BaseInput]]:
        return [data for data in super().datasets() if data.is_training]


class NVIDIA5B(_Steps, nvidia.NVIDIA5B):
    """nvidia.NVIDIA5B that ends after MAX_STEPS."""


class NVIDIA175B(_Steps, nvidia.NVIDIA175B):
    """nvidia.NVIDIA175B that ends after MAX_STEPS."""


class _Nemotron4(_Steps, c4.TransformerLmSpmdAdam, lm_cloud.SyntheticDataset):
    """Nemotron-4: squared ReLU without gating, grouped-query attention, rotary positions, untied embeddings.

    Sources: arXiv 2402.16819 (15B), arXiv 2406.11704 (340B). Praxis rotates all of a head's dimensions where
    Nemotron-4 rotates half of them; neither parameters nor matrix products change by that.
    """

    MAX_SEQ_LEN = 4096
    VOCAB_SIZE = 256000
    PERCORE_BATCH_SIZE = 1
    PACKED_INPUT = True

    NUM_LAYERS = 32
    NUM_HEADS = 48
    NUM_KV_HEADS = 8
    DIMS_PER_HEAD = 128
    MODEL_DIMS = 6144
    HIDDEN_DIMS = 24576

    ACTIVATION_CLS = activations.SquaredReLU
    USE_GATED_ACTIVATION = False
    USE_ROTARY_POSITION_EMB = True
    SEPARATE_EMBEDDING = True
    USE_BIAS = False
    COMBINE_QKV = False
    ATTEN_LOGIT_CAP = -1.0
    SOFTMAX_CAP_LOGITS = None

    FPROP_DTYPE = nvidia.NVIDIA5B.FPROP_DTYPE
    USE_FP8 = False
    USE_REPEATED_LAYER = True
    CHECKPOINT_POLICY = layers.AutodiffCheckpointType.SAVE_NOTHING

    LEARNING_RATE = 1.5e-4
    ICI_MESH_SHAPE = [1, 8, 1]
    DCN_MESH_SHAPE = [1, 1, 1]

    def task(self) -> pax_fiddle.Config[tasks_lib.SingleTask]:
        task_p = super().task()
        model_p = task_p.model
        model_p.lm_tpl.softmax_tpl.feed_forward_tpl.has_bias = False
        # Rotary positions stand in the attention; the sum of position embeddings at the input goes.
        model_p.lm_tpl.position_emb_tpl = None
        stacked_p = model_p.lm_tpl.stacked_transformer_tpl
        if self.USE_REPEATED_LAYER:
            stacked_p = stacked_p.block
        layer_p = stacked_p.transformer_layer_params_tpl
        layer_p.tr_fflayer_tpl.has_bias = False
        layer_p.tr_atten_tpl = self._attention(layer_p.tr_atten_tpl)
        return task_p

    def _attention(
        self, dense: pax_fiddle.Config[base_layer.BaseLayer]
    ) -> pax_fiddle.Config[base_layer.BaseLayer]:
        """Returns grouped-query attention with the sharding of the plain attention that it replaces."""
        grouped = pax_fiddle.Config(
            multi_query_attention.MultiQueryDotProductAttention,
            num_kv_heads=self.NUM_KV_HEADS,
            use_bias=self.USE_BIAS,
            use_rotary_position_emb=self.USE_ROTARY_POSITION_EMB,
            atten_logit_cap=self.ATTEN_LOGIT_CAP,
        )
        grouped.weight_split_dims_mapping.proj = dense.weight_split_dims_mapping.proj
        grouped.activation_split_dims_mapping.blnh = dense.activation_split_dims_mapping.blnh
        grouped.activation_split_dims_mapping.bld = dense.activation_split_dims_mapping.bld
        if self.USE_FP8:
            grouped.proj_tpl.einsum_tpl = pax_fiddle.Config(fp8_ops.Fp8EinsumOp)
        return grouped


class Nemotron4_15B(_Nemotron4):
    """32 layers of 6144."""


class Nemotron4_340B(_Nemotron4):
    """96 layers of 18432."""

    NUM_LAYERS = 96
    NUM_HEADS = 96
    DIMS_PER_HEAD = 192
    MODEL_DIMS = 18432
    HIDDEN_DIMS = 73728


class SmokeDense(_Steps, c4.TransformerLmSpmdAdam, lm_cloud.SyntheticDataset):
    """A dense model that a CPU trains in seconds, with the knobs of the GPT classes."""

    MAX_SEQ_LEN = 128
    VOCAB_SIZE = 512
    PERCORE_BATCH_SIZE = 2
    NUM_LAYERS = 2
    NUM_HEADS = 4
    DIMS_PER_HEAD = 16
    MODEL_DIMS = 64
    HIDDEN_DIMS = 128
    ACTIVATION_CLS = layers.GELU
    TRAINABLE_POSITION_EMB = True
    TRAINABLE_PE_MAX_SEQ_LEN = MAX_SEQ_LEN
    USE_REPEATED_LAYER = False
    ICI_MESH_SHAPE = [1, 1, 1]
    DCN_MESH_SHAPE = [1, 1, 1]
    SUMMARY_INTERVAL_STEPS = 1


class SmokeMoe(SmokeDense):
    """A mixture of experts that a CPU trains in seconds, with the knobs of the Grok classes.

    Every second layer has experts, as in GLaM: praxis 1.4.0 has no Grok layer. NUM_KV_HEADS and USE_EXPERT_PARALLEL
    are there because Grok has them; this class attends with all heads and shards over (replica, data, mdl).
    """

    TRAINABLE_POSITION_EMB = False
    NUM_KV_HEADS = NUM_EXPERTS = 2
    NUM_GROUPS = 2
    USE_EXPERT_PARALLEL = False
    USE_TE_DPA = False

    def task(self) -> pax_fiddle.Config[tasks_lib.SingleTask]:
        task_p = super().task()
        model_p = task_p.model
        model_p.lm_tpl = glam.GlamUniTransformerLmHParams(
            name="smoke_lm",
            vocab_size=self.VOCAB_SIZE,
            num_transformer_layers=self.NUM_LAYERS,
            moe=True,
            model_dim=self.MODEL_DIMS,
            ff_dim=self.HIDDEN_DIMS,
            moe_hidden_dim=self.HIDDEN_DIMS,
            attention_num_heads=self.NUM_HEADS,
            attention_key_value_dim=self.DIMS_PER_HEAD,
            c_dim=None,
            capacity_factor=2.0,
            e_dim=self.NUM_EXPERTS,
            num_groups=self.NUM_GROUPS,
            combine_qkv=self.COMBINE_QKV,
            checkpoint_policy=self.CHECKPOINT_POLICY,
        )
        lm_cls = pax_fiddle.get_callable(model_p.lm_tpl)
        model_p.lm_tpl = lm_cls.set_sharding_params_v1(
            model_p.lm_tpl,
            replica_axis="replica",
            data_axis="data",
            mdl_axis="mdl",
            ici_mesh_shape=model_p.ici_mesh_shape,
            dcn_mesh_shape=model_p.dcn_mesh_shape,
            mesh_axis_names=["replica", "data", "mdl"],
            training_optimized=self.TRAINING_OPTIMIZED_SHARDING,
        )
        return task_p
