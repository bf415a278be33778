"""`cloudai-run pretrain` up to the launch: what it refuses, what it would run, and how it chooses where."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cloudai_run import machine
from cloudai_run.cli.main import run

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is no git repository, no settings of the user's, no GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path / "runs"))
    monkeypatch.setattr(machine, "gpu_count", lambda: 0)
    return tmp_path


def pretrain(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(["pretrain", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def command_in(err: str) -> str:
    return re.sub(r"^would run on executor \S+: ", "", err.splitlines()[-1])


def test_the_main_command_with_its_overrides(capsys: pytest.CaptureFixture[str], nowhere: Path):
    words = ["trainer.max_steps=5", "log.ckpt.save_on_train_epoch_end=False", "log.ckpt.save_last=False"]
    code, out, err = pretrain(capsys, "--factory", "llama3_8b", *words, "run.executor=local", "--dryrun")
    assert code == 0
    assert command_in(err) == (
        "nemo llm pretrain --yes --factory llama3_8b trainer.max_steps=5 log.ckpt.save_last=False "
        "log.ckpt.save_on_train_epoch_end=False trainer.num_nodes=1 trainer.devices=8"
    )
    assert "torchrun" in out
    assert "log.ckpt.save_last=False" in out
    assert [path for path in nowhere.rglob("*") if path.is_file()] == []


def test_final_values_are_sent_and_never_the_users_spelling(capsys: pytest.CaptureFixture[str]):
    words = [
        "data.seq_length*=2",
        "optim.config.lr=1e-3",
        "trainer.callbacks[0]=None",
        "trainer.max_steps=1e2",
    ]
    code, _, err = pretrain(capsys, "-f", "llama3_8b", *words[:2], words[3], "run.executor=local", "--dryrun")
    assert code == 0
    assert command_in(err) == (
        "nemo llm pretrain --yes --factory llama3_8b data.seq_length=16384 trainer.max_steps=100 "
        "optim.config.lr=0.001 trainer.num_nodes=1 trainer.devices=8"
    )


def test_a_string_goes_in_the_quotes_of_nemos_syntax(capsys: pytest.CaptureFixture[str]):
    code, _, err = pretrain(capsys, "-f", "llama3_8b", "log.name=os.system(touch pwned)", "--dryrun")
    assert code == 0
    assert "log.name='os.system(touch pwned)'" in command_in(err).replace("'\\''", "'").replace('"', "")
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["trainer.max_step=5"],
            "llama3_8b has no parameter trainer.max_step\n"
            "  trainer (nemo.lightning.pytorch.trainer.Trainer) accepts: accelerator, strategy, devices, num_nodes, "
            "callbacks, max_steps, limit_val_batches, ...\n"
            "  did you mean trainer.max_steps?\n"
            "  all of them: cloudai-run show llama3_8b trainer",
        ),
        (
            ["run.executor=slrum"],
            "there is no executor 'slrum'\n  known: local, slurm\n  did you mean run.executor=slurm?\n"
            "  named executors stand in cloudai-run.toml (docs/executors.md)",
        ),
        (
            ["run.executor=local"],
            "executor local needs a GPU, and this machine has none\n"
            "  on the CPU: --smoke (not a benchmark); to see the command: --dryrun; on a cluster: run.executor=slurm",
        ),
        (
            ["run.env.HF_TOKEN=hf_secret"],
            "run.env.HF_TOKEN would be written into the script and the run's record\n"
            "  a secret is named, not copied: export HF_TOKEN in this shell; for Slurm also"
            " run.executor.secrets+=['HF_TOKEN']",
        ),
        (
            ["trainer.num_nodes=4", "run.executor=slurm", "run.executor.nodes=2", "--dryrun"],
            "trainer.num_nodes=4 contradicts executor slurm, which has 2\n"
            "  the launcher sets trainer.num_nodes from the executor: run.executor.nodes=4",
        ),
        (
            ["run.plugins=nsyss"],
            "there is no plugin 'nsyss'\n  did you mean nsys?",
        ),
        (
            ["run.plugins=nsys(start_step=5,end_step=9)", "trainer.max_steps=6", "--smoke"],
            "nsys cannot profile steps 5 to 9 of 6\n  steps count from 0: run.plugins=nsys(start_step=2,end_step=3)",
        ),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], words: list[str], message: str):
    code, out, err = pretrain(capsys, "--factory", "llama3_8b", *words)
    assert (code, out, err) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which recipe?\n  give --factory NAME or --yaml FILE; names: cloudai-run list"),
        (
            ["-f", "llama3_9b"],
            "there is no recipe 'llama3_9b'\n  did you mean llama3_8b, llama3_70b, llama32_3b?\n"
            "  all of them: cloudai-run list",
        ),
        (["-f", "llama3_8b", "--yaml", "x.yaml"], "give --factory or --yaml, not both"),
    ],
)
def test_no_recipe(capsys: pytest.CaptureFixture[str], words: list[str], message: str):
    assert pretrain(capsys, *words) == (2, "", f"error: {message}\n")


def test_an_unknown_option_is_a_mistake_with_a_suggestion(capsys: pytest.CaptureFixture[str]):
    code, _, err = pretrain(capsys, "--factry", "llama3_8b")
    assert code == 2
    assert err.startswith("error: ")
    assert "--factory" in err


def test_a_rule_is_an_error_and_with_force_a_warning(capsys: pytest.CaptureFixture[str]):
    words = [
        "-f",
        "llama3_8b",
        "trainer.strategy.tensor_model_parallel_size=3",
        "run.executor=local",
        "--dryrun",
    ]
    code, out, err = pretrain(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: llama3_8b cannot run like this:\n")
    assert err.endswith("  --force turns these rules into warnings\n")
    code, out, err = pretrain(capsys, *words, "--force")
    assert code == 0
    assert err.startswith("warning: ")
    assert "trainer.strategy.tensor_model_parallel_size=3" in out


def test_a_type_is_an_error_with_force_too(capsys: pytest.CaptureFixture[str]):
    code, _, err = pretrain(capsys, "-f", "llama3_8b", "trainer.max_steps=abc", "--force", "--dryrun")
    assert code == 2
    assert "trainer.max_steps" in err


def test_without_gpu_and_executor_it_is_a_smoke_run_and_says_so_first(capsys: pytest.CaptureFixture[str]):
    code, out, err = pretrain(
        capsys, "-f", "llama3_8b", "--smoke", "trainer.strategy.tensor_model_parallel_size=2", "--dryrun"
    )
    assert code == 0
    lines = err.splitlines()
    assert lines[0] == "CPU smoke run: not a benchmark"
    assert lines[1] == "reset for the CPU smoke run: trainer.strategy.tensor_model_parallel_size 2 -> 1"
    assert "cpu_shim.py" in out


@pytest.mark.parametrize(
    "recipe", ["llama3_70b", "llama31_405b", "nemotron4_340b", "mixtral_8x7b", "gpt3_175b"]
)
def test_recipes_of_any_size_have_a_smoke_run(capsys: pytest.CaptureFixture[str], recipe: str):
    code, out, _ = pretrain(capsys, "-f", recipe, "--smoke", "--dryrun")
    assert code == 0
    assert "model.config.num_layers=2" in out


def test_the_settings_file_names_the_default_executor(capsys: pytest.CaptureFixture[str], nowhere: Path):
    (nowhere / "cloudai-run.toml").write_text(
        'default_executor = "night"\n[executors.night]\nkind = "slurm"\naccount = "bench"\n'
        'nodes = 2\ntime = "2:00:00"\n[executors.night.env]\nNCCL_DEBUG = "WARN"\n',
        encoding="utf-8",
    )
    code, out, err = pretrain(capsys, "-f", "llama3_8b", "trainer.max_steps=5", "--dryrun")
    assert code == 0
    assert "trainer.num_nodes=2" in err
    assert "#SBATCH --account=bench" in out
    assert "NCCL_DEBUG" in out


def test_a_wrong_field_in_the_settings_file(capsys: pytest.CaptureFixture[str], nowhere: Path):
    path = nowhere / "cloudai-run.toml"
    path.write_text('[executors.night]\nkind = "slurm"\nacount = "bench"\n', encoding="utf-8")
    code, _, err = pretrain(capsys, "-f", "llama3_8b", "run.executor=night", "--dryrun")
    assert code == 2
    assert err == (f"error: {path}: executor night (slurm) has no field acount\n  did you mean account?\n")


@pytest.mark.parametrize("kind", ["yaml", "json", "toml"])
def test_an_export_reads_back_to_the_same_command(capsys: pytest.CaptureFixture[str], kind: str):
    words = ["trainer.max_steps=7", "log.wandb=None", "run.env.A=b c", "run.executor=local"]
    assert pretrain(capsys, "-f", "llama3_8b", *words, f"--to-{kind}", f"out.{kind}")[0] == 0
    code, out, err = pretrain(capsys, "--yaml", f"out.{kind}", "run.executor=local", "--dryrun")
    assert code == 0
    assert "trainer.max_steps=7" in command_in(err)
    assert "'b c'" in out


def test_json_of_a_dry_run(capsys: pytest.CaptureFixture[str]):
    code, out, _ = pretrain(capsys, "-f", "llama3_8b", "run.executor=local", "--dryrun", "--json")
    payload = json.loads(out)
    assert code == 0
    assert payload["command"][:6] == ["nemo", "llm", "pretrain", "--yes", "--factory", "llama3_8b"]
    assert payload["script"].startswith("#!/bin/bash\n")


def test_nsys_wraps_rank_0_and_nemo_starts_the_profiler(capsys: pytest.CaptureFixture[str]):
    words = ["trainer.max_steps=20", "run.plugins=nsys(start_step=5,end_step=6)", "run.executor=slurm"]
    code, out, err = pretrain(capsys, "-f", "llama3_8b", *words, "--dryrun")
    assert code == 0
    assert "NsysCallback(start_step=5, end_step=6" in command_in(err)
    assert "--capture-range=cudaProfilerApi" in out


def test_a_container_of_another_version_is_said_in_one_line(capsys: pytest.CaptureFixture[str]):
    words = ["run.executor=slurm", "run.executor.container_image=nvcr.io/nvidia/nemo:25.04"]
    code, _, err = pretrain(capsys, "-f", "llama3_8b", *words, "--dryrun")
    assert code == 0
    assert err.splitlines()[0] == (
        "overrides were checked against NeMo 2.7.3; nvcr.io/nvidia/nemo:25.04 may hold another"
        " (cloudai-run schema export)"
    )


def test_an_experiment_class_of_ones_own_brings_its_knobs(capsys: pytest.CaptureFixture[str]):
    words = ["fdl_config=my_package.MyClass", "+fdl.my_knob=3", "run.executor=slurm", "--dryrun"]
    code, out, err = pretrain(capsys, "-f", "paxml", *words)
    assert code == 0, err
    assert "--fdl_config=my_package.MyClass" in out
    assert "--fdl.MY_KNOB=3" in out


def test_a_knob_that_the_class_ignores_is_refused_with_why(capsys: pytest.CaptureFixture[str]):
    words = ["fdl_config=paxml.tasks.lm.params.nvidia.NVIDIA5B", "fdl.max_steps=30", "--dryrun"]
    code, _, err = pretrain(capsys, "-f", "paxml", *words)
    assert code == 2
    assert "NVIDIA5B ignores fdl.max_steps" in err


@pytest.mark.parametrize("name", ["a b", "../up", "-x", ""])
def test_a_name_that_is_no_folder(capsys: pytest.CaptureFixture[str], name: str):
    code, _, err = pretrain(capsys, "-f", "llama3_8b", "--name", name, "--dryrun")
    assert code == 2
    assert err.startswith(f"error: --name {name!r} cannot name a folder\n")
