"""What this machine has, read from a made-up /dev and /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudai_run import machine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    folder = tmp_path / "proc/driver/nvidia/gpus/0000:19:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text(
        "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 123\n", encoding="utf-8"
    )
    return tmp_path


@pytest.mark.parametrize(("visible", "count"), [(None, 3), ("", 0), ("-1", 0), ("1", 1), ("0,1,2,3,4", 3)])
def test_gpu_count(root: Path, visible: str | None, count: int):
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert machine.gpu_count(environ, root) == count


def test_gpu_model(root: Path, tmp_path_factory: pytest.TempPathFactory):
    assert machine.gpu_model(root) == "NVIDIA H100 80GB HBM3"
    assert machine.gpu_model(tmp_path_factory.mktemp("bare")) is None


def test_versions_name_this_project():
    assert machine.versions()["cloudai-run"]
