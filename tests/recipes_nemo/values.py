"""Values that a recipe can hold, for property tests."""

from __future__ import annotations

import nemo_run as run
from hypothesis import strategies as st

from cloudai_run.recipes.nemo import remote

SCHEMA = "nemo_2_7_3"
FLASH = "megatron.core.transformer.enums.AttnBackend.flash"

named = st.sampled_from(["torch.bfloat16", FLASH, "torch.nn.functional.silu", "nemo.lightning.Trainer"]).map(
    lambda name: remote.standin(SCHEMA, name)
)
atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["1e-4", "null", "no", "12:30:45", "_target_", "2024-01-01", "=", "*a", "\x85\u2028\0"])
)


def _nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    keys = st.text(max_size=8) | st.sampled_from(["_target_", "_null_", "_tuple_", "a.b", ""])
    # fiddle sorts a dict's keys, so they are of one kind.
    odd_keys = st.sampled_from([st.integers(), st.tuples(st.integers(), st.text(max_size=3))])
    adapter = remote.standin(SCHEMA, "nemo.lightning.pytorch.callbacks.JitConfig")
    return (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | odd_keys.flatmap(lambda keys: st.dictionaries(keys, inner, max_size=3))
        | inner.map(lambda value: run.Config(adapter, torch_kwargs=value))
        | inner.map(lambda value: run.Partial(adapter, torch_kwargs=value))
    )


values = st.recursive(atoms | named, _nested, max_leaves=8)
