"""Calling a built recipe runs its command where it stands, by itself and under a stock NeMo-Run executor."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import fiddle as fdl
import pytest

from cloudai_run.recipes.errors import RecipeError
from cloudai_run.recipes.nemo import llama3_8b
from cloudai_run.recipes.nemo.inplace import command, run_in_place
from cloudai_run.recipes.nemo.smoke import SHIM_FILE
from cloudai_run.recipes.nemo.tree import to_tree

ROOT = Path(__file__).parents[2]
FAKE_NEMO = """#!/bin/sh
exec "$PYTHON" -c 'import json, os, sys; from pathlib import Path
Path(os.environ["RECORD"]).write_text(json.dumps([sys.argv[1:], os.environ["GREETING"]]))
print("trained")' "$@"
"""


@pytest.fixture
def with_fake_nemo(tmp_path: Path) -> dict[str, str]:
    """An environment whose `nemo` records its arguments in a file and exits."""
    folder = tmp_path / "bin"
    folder.mkdir()
    nemo = folder / "nemo"
    nemo.write_text(FAKE_NEMO)
    nemo.chmod(nemo.stat().st_mode | stat.S_IXUSR)
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "RECORD": str(tmp_path / "record.json"),
        "NEMORUN_HOME": str(tmp_path / "home"),
    }


def test_the_command_holds_what_differs_and_the_size() -> None:
    recipe = llama3_8b(num_nodes=2)
    recipe.trainer.max_steps = 5
    assert command(to_tree(recipe)) == (
        *("nemo", "llm", "pretrain", "--yes", "--factory", "llama3_8b"),
        *("trainer.max_steps=5", "trainer.num_nodes=2", "trainer.devices=8"),
    )


def test_running_replaces_the_process_with_the_environment_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "yes")
    calls: list[tuple[str, list[str], dict[str, str]]] = []
    recipe = llama3_8b(env={"GREETING": "it's $HOME"})
    run_in_place(fdl.build(recipe), lambda *call: calls.append(call))
    ((program, argv, env),) = calls
    assert (program, argv[0]) == ("nemo", "nemo")
    assert argv == list(command(to_tree(recipe)))
    assert (env["GREETING"], env["KEPT"]) == ("it's $HOME", "yes")


def test_a_smoke_recipe_runs_through_the_shim() -> None:
    argv = command(to_tree(llama3_8b(smoke=True)))
    assert argv[:4] == (sys.executable, str(SHIM_FILE), "llm", "pretrain")
    assert "trainer.accelerator='cpu'" in argv
    assert argv[-2:] == ("trainer.num_nodes=1", "trainer.devices=1")


def test_a_recipe_marked_as_smoke_later_is_shrunk_too() -> None:
    recipe = llama3_8b()
    recipe.workload.smoke = True
    assert set(command(to_tree(recipe))) == set(command(to_tree(llama3_8b(smoke=True))))


def test_names_that_nemo_would_swallow_are_refused_before_it_starts() -> None:
    recipe = llama3_8b()
    recipe.trainer.strategy.tensor_model_parallel = 4
    with pytest.raises(RecipeError, match="has no parameter tensor_model_parallel\n"):
        command(to_tree(recipe))


def test_a_recipe_without_workload_is_refused() -> None:
    recipe = llama3_8b()
    del recipe.workload
    with pytest.raises(RecipeError) as raised:
        run_in_place(fdl.build(recipe))
    assert str(raised.value) == ("the recipe has no workload: build it with a factory of cloudai_run.recipes")


def test_a_missing_nemo_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RecipeError) as raised:
        run_in_place(fdl.build(llama3_8b()))
    assert str(raised.value) == (
        "nemo is not on PATH, so llama3_8b cannot run here\n"
        "  install NeMo here, or use an executor with a container that has it"
    )


@pytest.mark.parametrize(
    "program",
    [
        "import fiddle as fdl\nfdl.build(recipe)()\n",
        "import nemo_run as run\n"
        "with run.Experiment('trial') as experiment:\n"
        "    experiment.add(recipe, executor=run.LocalExecutor())\n"
        "    experiment.run(detach=False, tail_logs=True)\n",
    ],
    ids=["called", "stock LocalExecutor"],
)
def test_it_runs_end_to_end(with_fake_nemo: dict[str, str], tmp_path: Path, program: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "from cloudai_run.recipes import llama3_8b\n"
        "recipe = llama3_8b(env={'GREETING': \"it's a b\"})\n"
        "recipe.trainer.max_steps = 5\n"
        "recipe.log.name = 'a b'\n"
        f"if __name__ == '__main__':\n{''.join(f'    {line}' for line in program.splitlines(keepends=True))}"
    )
    done = subprocess.run(
        [sys.executable, str(script)], env=with_fake_nemo, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "trained" in done.stdout + done.stderr
    argv, greeting = json.loads((tmp_path / "record.json").read_text())
    assert argv == [
        *("llm", "pretrain", "--yes", "--factory", "llama3_8b"),
        *("trainer.max_steps=5", "log.name='a b'", "trainer.num_nodes=1", "trainer.devices=8"),
    ]
    assert greeting == "it's a b"
