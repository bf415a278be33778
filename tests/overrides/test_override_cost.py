"""What overrides cost: few modules, and about a millisecond."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from cloudai_run.overrides import apply, parse
from cloudai_run.recipes.nemo.schema import load

ROOT = Path(__file__).parents[2]
WORDS = [
    "trainer.max_steps=5",
    "log.ckpt.save_last=False",
    "log.name=a b",
    "trainer.strategy.tensor_model_parallel_size=2",
    "trainer.strategy.pipeline_dtype=torch.bfloat16",
    "optim.config.lr*=2",
    "data.seq_length=4096",
    "model.config.num_layers=4",
    "trainer.callbacks+=[nemo.lightning.pytorch.callbacks.NsysCallback(start_step=5,end_step=6)]",
    "+trainer.strategy.static_graph_of_mine=True",
]
HEAVY = ("fiddle", "nemo_run", "numpy", "torch", "yaml", "typer", "dataclasses_json", "difflib")


def test_import_brings_nothing_heavy() -> None:
    code = "import sys, cloudai_run.overrides; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & set(HEAVY)


def test_ten_overrides_take_milliseconds() -> None:
    schema = load()
    tree = schema.recipe_tree("llama3_8b")
    apply(parse(WORDS), tree, schema, "llama3_8b")
    best_s = 1.0
    for _ in range(20):
        start = time.perf_counter()
        apply(parse(WORDS), tree, schema, "llama3_8b")
        best_s = min(best_s, time.perf_counter() - start)
    # About 1.5 ms on the machine where this was written; the limit leaves room for slower ones.
    assert best_s < 0.010
