"""Each feature's script is a golden file that runs, and that shellcheck has nothing against."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cloudai_run.executors.quoting import secret_file
from cloudai_run.executors.render import render_sbatch, steps
from cloudai_run.executors.render_local import render_local
from tests.executors_render.harness import Outcome, run_script
from tests.executors_render.plans import LOCAL_PLANS, RUN_DIR, SBATCH_PLANS, SECRETS
from tests.golden import assert_golden

_GOLDEN = Path(__file__).parent / "golden"
_SCRIPTS = [*(f"{name}.sbatch" for name in SBATCH_PLANS), *(f"{name}.local" for name in LOCAL_PLANS)]


def render(script: str) -> str:
    """Renders a golden script by its file name."""
    name, kind = script.split(".")
    return (
        render_sbatch(SBATCH_PLANS[name](RUN_DIR))
        if kind == "sbatch"
        else render_local(LOCAL_PLANS[name](RUN_DIR))
    )


def run_golden(script: str, folder: Path) -> Outcome:
    """Runs the text of a golden file, with the run folder and the secrets' file in a folder of the test's."""
    text = (_GOLDEN / f"{script}.sh").read_text()
    run_dir, secrets = folder / "run", folder / "secrets"
    secrets.write_text(secret_file({"HF_TOKEN": "hf_1", "WANDB_API_KEY": "w 'b' $c\n"}))
    secrets.chmod(0o600)
    return run_script(
        text.replace(RUN_DIR, str(run_dir)).replace(SECRETS, str(secrets)), folder, run_dir=run_dir
    )


@pytest.mark.parametrize("script", _SCRIPTS)
def test_script_is_the_golden_one(script: str) -> None:
    assert_golden(_GOLDEN / f"{script}.sh", render(script))


def test_no_golden_is_left_over() -> None:
    assert sorted(path.name for path in _GOLDEN.iterdir()) == sorted(f"{script}.sh" for script in _SCRIPTS)


@pytest.mark.parametrize("command", ["bash -n", "shellcheck --severity=style"])
def test_tool_has_nothing_against_the_scripts(command: str) -> None:
    for script in _SCRIPTS:
        done = subprocess.run(
            [*command.split(), str(_GOLDEN / f"{script}.sh")], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), script


@pytest.mark.parametrize("name", SBATCH_PLANS)
def test_golden_script_of_sbatch_runs_every_stage(name: str, tmp_path: Path) -> None:
    outcome = run_golden(f"{name}.sbatch", tmp_path)
    expected = [step.name for step in steps(SBATCH_PLANS[name](RUN_DIR))]
    assert (outcome.code, outcome.stderr) == (0, "")
    set_up = ["set-up"] if name == "secrets" else []
    assert [record["stage"] for record in outcome.records if record["event"] == "start"] == set_up + expected
    assert outcome.ends() == dict.fromkeys(set_up + expected, 0)
    assert all(record["job_id"] == 4711 and record["attempt"] == 0 for record in outcome.records)
    removal = 1 if any(step.startswith("load-") for step in expected) else 0
    assert len(outcome.sruns) == len(expected) + removal


@pytest.mark.parametrize("name", ["local"])
def test_golden_local_script_runs_every_stage(name: str, tmp_path: Path) -> None:
    outcome = run_golden(f"{name}.local", tmp_path)
    stages = [stage.name for stage in LOCAL_PLANS[name](RUN_DIR).stages]
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.ends() == dict.fromkeys(["set-up", *stages], 0)
    assert outcome.sruns == []
