"""cloudai-run.toml: where it is looked for, what it may say, and the messages for what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudai_run import config_file
from cloudai_run.errors import UserError

SLURM = """
default_executor = "night"

[executors.night]
kind = "slurm"
account = "bench"
nodes = 256

[executors.local]
ntasks_per_node = 4
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / config_file.FILE_NAME
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_the_built_in_executors_stand(folder: Path):
    settings = config_file.load(folder)
    assert list(settings.executors) == ["local", "slurm"]
    assert settings.default_executor is None


def test_a_file_above_the_current_folder_is_found_before_the_users(folder: Path):
    write(folder / "config" / "cloudai-run", 'default_executor = "slurm"\n')
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    assert config_file.load(below).default_executor == "slurm"
    write(folder / "a", SLURM)
    settings = config_file.load(below)
    assert settings.default_executor == "night"
    assert settings.executor("night") == config_file.ExecutorSpec(
        "night", "slurm", {"account": "bench", "nodes": 256}, str(folder / "a" / "cloudai-run.toml")
    )
    assert settings.executor("local").fields == {"ntasks_per_node": 4}
    assert settings.executor("night").description() == "slurm: account=bench, nodes=256"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default_executor = ", "{path} is not valid TOML: Invalid value (at end of document)"),
        ("defualt_executor = 'x'", "{path}: unknown key defualt_executor; did you mean default_executor?"),
        ("executors = 3", "{path}: executors must be tables, as in [executors.slurm]"),
        ("[executors.night]\nnodes = 2", "{path}: [executors.night] needs kind = 'local' or 'slurm'"),
        (
            "[executors.night]\nkind = 'k8s'",
            "{path}: [executors.night] needs kind = 'local' or 'slurm', not 'k8s'",
        ),
        (
            "default_executor = 'slum'",
            "there is no executor 'slum'\n  known: local, slurm\n  did you mean run.executor=slurm?\n"
            "  named executors stand in cloudai-run.toml (docs/executors.md)",
        ),
    ],
)
def test_mistakes_in_the_file(folder: Path, text: str, message: str):
    path = write(folder, text)
    with pytest.raises(UserError) as caught:
        config_file.load(folder)
    assert str(caught.value) == message.format(path=path)
