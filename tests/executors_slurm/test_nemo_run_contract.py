"""What is used of nemo_run's private parts: one message names what a new version changed."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

from cloudai_run.executors import nemo_run_parts
from cloudai_run.executors.registry import LOCAL_SCHEDULER, SLURM_SCHEDULER

REPOSITORY = Path(__file__).parents[2]


def test_nemo_run_has_the_parts_that_are_used() -> None:
    wrong = nemo_run_parts.missing_parts()
    assert not wrong, nemo_run_parts.message(wrong)


def test_the_message_names_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    from nemo_run.run.experiment import Experiment
    from nemo_run.run.torchx_backend.schedulers.slurm import SlurmTunnelScheduler

    monkeypatch.delattr(SlurmTunnelScheduler, "_initialize_tunnel")
    monkeypatch.setattr(Experiment, "_DETACH_SUPPORTED_EXECUTORS", None)
    text = nemo_run_parts.message(nemo_run_parts.missing_parts())
    slurm = "nemo_run.run.torchx_backend.schedulers.slurm:SlurmTunnelScheduler"
    assert re.sub(r"\d[\d.a-z+]*", "N", text.splitlines()[0]) == (
        "nemo_run N, torchx N changed what cloudai-run's executors use:"
    )
    assert text.splitlines()[1:] == [
        f"  {slurm}._initialize_tunnel is gone",
        "  nemo_run.run.experiment:Experiment._DETACH_SUPPORTED_EXECUTORS is gone, or no tuple",
    ]


def test_each_import_of_a_private_part_is_listed() -> None:
    """A name with a leading underscore that is taken from nemo_run or torchx stands in the tables."""
    listed = {name.partition(":")[2] for name in (*nemo_run_parts.FUNCTIONS, *nemo_run_parts.ATTRIBUTES)}
    private = {part for name in listed for part in name.split(".") if part.startswith("_")}
    own = re.compile(
        r"(?:nemo_run_\w+|experiment|dist|schedulers_api|super\(\)|self\.tunnel)\.(_[a-zA-Z]\w+)"
    )
    for path in (REPOSITORY / "executors").glob("*.py"):
        for name in own.findall(path.read_text(encoding="utf-8")):
            assert name in private, f"{path.name} uses {name}, which nemo_run_parts does not list"


def test_the_schedulers_are_entry_points_of_the_package() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points."torchx.schedulers"]' in text
    for name, module in ((SLURM_SCHEDULER, "slurm_scheduler"), (LOCAL_SCHEDULER, "local_scheduler")):
        assert f'{name} = "cloudai_run.executors.{module}:create_scheduler"' in text


def test_the_supported_range_stands_in_pyproject() -> None:
    version = importlib.metadata.version("nemo_run")
    (lower, upper) = re.findall(
        r'"nemo_run>=([\d.]+),<([\d.]+)"', (REPOSITORY / "pyproject.toml").read_text()
    )[0]

    def numbers(text: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", text)[:3]]

    assert numbers(lower) <= numbers(version) < numbers(upper)
