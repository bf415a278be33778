"""Real NeMo trains every shipped recipe on the CPU, shrunk."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cloudai_run.recipes.nemo import recipe_tree
from cloudai_run.recipes.nemo.smoke import SHIM_FILE, cpu_smoke, smoke_argv

pytestmark = pytest.mark.nemo

RECIPES = (
    "llama3_8b",
    "llama3_70b",
    "llama31_8b",
    "llama31_70b",
    "llama31_405b",
    "nemotron4_15b",
    "nemotron4_340b",
    "mixtral_8x7b",
    "gpt3_175b",
)
STEP = re.compile(
    r"^(?:\S+: ?)?Training epoch \d+, iteration (\d+)/\d+ \|.* reduced_train_loss: (\S+)", re.MULTILINE
)
NSYS = "nemo.lightning.pytorch.callbacks.nsys.NsysCallback"


@dataclass(frozen=True, repr=False)
class Outcome:
    """One finished run: its log, its steps' losses, its exit code, and where it wrote."""

    text: str
    exit_code: int
    wall_s: float
    log_dir: Path
    elsewhere: list[str]

    @property
    def losses(self) -> list[float]:
        return [float(loss) for _, loss in STEP.findall(self.text)]

    @property
    def iterations(self) -> list[int]:
        return [int(iteration) for iteration, _ in STEP.findall(self.text)]

    def __repr__(self) -> str:
        return f"exit code {self.exit_code} after {self.wall_s:.1f} s:\n{self.text[-4000:]}"


def run(folder: Path, tree: dict[str, Any], num_processes: int = 1) -> Outcome:
    folder.mkdir()
    cwd, log_dir = folder / "cwd", folder / "the log's"
    cwd.mkdir()
    shrunk, _ = cpu_smoke(tree, num_processes)
    # The shim stands alone: a copy of it is enough.
    shim = folder / "a copy.py"
    shutil.copy(SHIM_FILE, shim)
    argv = smoke_argv(shrunk, shim=str(shim), num_processes_per_node=num_processes, log_dir=str(log_dir))
    if num_processes > 1:
        torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_processes))
        argv = (argv[0], *torchrun, *argv[1:])
    # Libraries keep caches in the home: matplotlib, if it is installed, lists the fonts there.
    home = folder.with_name(f"{folder.name}'s home")
    environment = {**os.environ, "HOME": str(home), "PYTHONWARNINGS": "ignore"}
    start = time.monotonic()
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    written = [path for path in folder.rglob("*") if path.is_file() and path != shim]
    elsewhere = [str(path) for path in written if log_dir not in path.parents]
    return Outcome(done.stdout, done.returncode, time.monotonic() - start, log_dir, elsewhere)


def with_steps(recipe: str, max_steps: int) -> dict[str, Any]:
    tree: dict[str, Any] = recipe_tree(recipe)
    tree["trainer"]["max_steps"] = max_steps
    return tree


def changed() -> dict[str, Any]:
    """A recipe with changes of many kinds, all of which a CPU can honour."""
    tree = with_steps("llama3_8b", 3)
    tree["log"]["name"] = "it's $HOME; os.getcwd()"
    tree["model"]["config"] |= {"num_layers": 3, "hidden_size": 96, "recompute_granularity": "full"}
    tree["model"]["config"] |= {"recompute_method": "uniform", "recompute_num_layers": 1}
    flash = "megatron.core.transformer.enums.AttnBackend.flash"
    tree["model"]["config"]["attention_backend"] = {"_target_": flash, "_call_": False}
    tree["data"] |= {"seq_length": 32, "micro_batch_size": 2, "global_batch_size": 8}
    tree["trainer"]["callbacks"] += [
        {"_target_": NSYS, "start_step": 1, "end_step": 2},
        {"_target_": NSYS, "start_step": 1, "end_step": 2, "ranks": [0, 1]},
    ]
    tree["trainer"]["strategy"]["progress_interval"] = 2
    return tree


def broken() -> dict[str, Any]:
    tree = with_steps("llama3_8b", 3)
    tree["model"]["config"]["normalization"] = "none of these"
    return tree


def learning() -> dict[str, Any]:
    tree = with_steps("llama3_8b", 40)
    tree["optim"]["config"]["lr"] = 0.01
    tree["optim"]["lr_scheduler"]["warmup_steps"] = 0
    return tree


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """All runs, started together as far as there are cores."""
    root = tmp_path_factory.mktemp("smoke runs")
    plans = {recipe: (with_steps(recipe, 3), 1) for recipe in RECIPES}
    plans |= {"changed": (changed(), 1), "broken": (broken(), 1), "two processes": (learning(), 2)}
    futures: dict[str, Future[Outcome]] = {}
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for name, (tree, num_processes) in plans.items():
            futures[name] = pool.submit(run, root / name, tree, num_processes)
    return lambda name: futures[name].result()


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_shipped_recipe_trains_three_steps(recipe: str, outcome: Callable[[str], Outcome]) -> None:
    done = outcome(recipe)
    assert done.exit_code == 0, done
    assert done.iterations == [0, 1, 2], done
    # An untrained model guesses among 257 tokens.
    assert all(abs(loss - math.log(257)) < 1 for loss in done.losses), done
    assert "`Trainer.fit` stopped: `max_steps=3` reached." in done.text
    assert done.elsewhere == []


def test_changes_arrive(outcome: Callable[[str], Outcome]) -> None:
    done = outcome("changed")
    assert done.exit_code == 0, done
    assert done.iterations == [1], done
    assert "global_batch_size: 8" in done.text
    assert [path.name for path in done.log_dir.iterdir() if path.name != "tb_logs"] == [
        "it's $HOME; os.getcwd()"
    ]
    # 3 layers of 96: the attention's 4 projections, the gated MLP's 3, 2 norms; a norm and two embeddings.
    layer = 4 * 96 * 96 + 3 * 96 * 128 + 2 * 96
    assert f"(0 ,0): {3 * layer + 96 + 2 * 384 * 96}" in done.text, done


def test_a_run_that_fails_exits_with_an_error(outcome: Callable[[str], Outcome]) -> None:
    done = outcome("broken")
    assert done.exit_code == 1, done
    assert done.losses == []


def test_two_processes_train_data_parallel_and_learn(outcome: Callable[[str], Outcome]) -> None:
    done = outcome("two processes")
    assert done.exit_code == 0, done
    assert done.iterations == [*range(40)], done
    assert "All data parallel group ranks with context parallel combined: [[0, 1]]" in done.text
    assert "global_batch_size: 4" in done.text
    assert sum(done.losses[-5:]) / 5 < done.losses[0] - 0.05, done.losses
    assert done.elsewhere == []
