"""Which files are read: run folders, folders, files, several files; whose lines they hold."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from cloudai_run.errors import UserError
from cloudai_run.metrics.labels import Label, attempt_of_path, label_of, label_of_file
from cloudai_run.metrics.parse import parse_files, parse_run

DATA = Path(__file__).parent / "data"
LINE = (
    "{label}Training epoch 0, iteration {step}/4 | lr: 1e-4 | global_step: {step} | reduced_train_loss: 5.5 | "
    "train_step_timing in s: {seconds} | consumed_samples: {step}\n"
)


def nemo(seconds: float, steps: range = range(5), label: str = "") -> str:
    return "".join(LINE.format(label=label, step=step, seconds=seconds + step / 100) for step in steps)


@pytest.mark.parametrize(
    ("prefix", "rank", "node"),
    [
        ("", None, None),
        ("0: ", 0, None),
        ("  17: ", 17, None),
        ("[1,12]<stdout>:", 12, None),
        ("[1,12]<stderr>: ", 12, None),
        ("tinyexp/0 ", 0, "tinyexp/0"),
        ("ain_fp8_mx/3 ", 3, "ain_fp8_mx/3"),
        ("tinyexp/0 [default3]:", 3, "tinyexp/0"),
        ("tinyexp/1 [default3]:", None, "tinyexp/1"),
        ("[rank5]: ", 5, None),
        ("node007: 3: ", 3, "node007"),
        ("12:30:01 ", None, None),
        ("2026-11-30 23:01:05.3: ", None, None),
        ("/opt/run/3 ", None, None),
        ("I0411 15:03:26.866614 140737350317184 programs.py:366] ", None, None),
        ("[NeMo I 2026-11-30 23:09:09 nemo_logging:393] ", None, None),
    ],
)
def test_labels(prefix: str, rank: int | None, node: str | None) -> None:
    assert label_of(prefix) == Label(rank, node)


@pytest.mark.parametrize(
    ("name", "rank", "node"),
    [
        ("pax_two_ranks_rank0.err", 0, None),
        ("rank-12.log", 12, None),
        ("error-4711-3-25.txt", 25, "node 3"),
        ("output-4711-0-7.txt", 7, "node 0"),
        ("train.task_3.out", 3, None),
        ("node7.log", None, "node7"),
        ("node-2-gpu0123.log", None, "gpu0123"),
        ("slurm-4711.out", None, None),
        ("frank3.log", None, None),
        ("crank2-9.log", None, None),
    ],
)
def test_file_names(name: str, rank: int | None, node: str | None) -> None:
    assert label_of_file(name) == Label(rank, node)


def test_attempts_are_told_by_the_last_parts_of_a_path() -> None:
    assert attempt_of_path("/data/attempt-9/run/logs/train/attempt-1/rank-0.log") == 1
    assert attempt_of_path("logs/rank0.attempt_2.log") == 2
    assert attempt_of_path("/data/attempt-9/run/logs/train/rank-0.log") is None


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run_folder(folder: Path) -> Path:
    """A run folder with two stages, two attempts of the second one on two nodes."""
    stages = [{"name": "preflight"}, {"name": "train"}, {"name": "later"}]
    write(folder / "run.json", json.dumps({"schema_version": 1, "stages": stages}))
    table = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    table += "8 2 float sum -1 34.2 0.1 0.2 0 32.8 0.3 0.4 0\n# Avg bus bandwidth    : 1.5\n"
    write(folder / "logs/preflight/attempt-0/node-0-n1.log", table)
    write(folder / "logs/container-load/attempt-0/node-0-n1.log", "pyxis: importing\n")
    for attempt, seconds in ((0, 9.0), (1, 1.0)):
        logs = folder / f"logs/train/attempt-{attempt}"
        write(logs / "node-0-n1.log", nemo(seconds, label=" 0: ") + nemo(seconds + 0.5, label=" 1: "))
        write(logs / "node-1-n2.log", nemo(seconds + 1, label=" 2: ") + nemo(seconds + 1.5, label=" 3: "))
        write(logs / "rank-0.log", nemo(seconds))
    return folder


def test_run_folder(tmp_path: Path) -> None:
    logs = parse_run(run_folder(tmp_path))
    assert list(logs) == ["preflight", "train"]
    assert logs["preflight"].format == "nccl_tests"
    train = logs["train"]
    assert train.stage == "train"
    assert [(rank.rank, rank.node, rank.steps) for rank in train.ranks] == [
        (0, "n1", 5),
        (1, "n1", 5),
        (2, "n2", 5),
        (3, "n2", 5),
    ]
    assert {step.attempt for step in train.steps} == {1}
    assert train.steps[0].step_time_s == 1.0
    assert (train.restarts, train.superseded) == (1, 20)
    assert not any("repeat" in note for note in train.notes)
    assert not any(source.endswith("rank-0.log") for source in train.sources)


def test_run_folder_stages_can_be_chosen(tmp_path: Path) -> None:
    assert list(parse_run(run_folder(tmp_path), stages=["train"])) == ["train"]


def test_run_folder_without_a_known_log_says_what_each_stage_lacks(tmp_path: Path) -> None:
    write(tmp_path / "logs/load/attempt-0/node-0-n1.log", "pyxis: importing\n")
    (tmp_path / "logs/train").mkdir()
    with pytest.raises(UserError) as caught:
        parse_run(tmp_path)
    text = str(caught.value).replace(str(tmp_path), "RUN")
    assert text == (
        "no stage of RUN holds a log that is known\n"
        "load: no step line of a known format in RUN/logs/load/attempt-0/node-0-n1.log (17 bytes)\n"
        "train: RUN/logs/train holds no log (.err, .log, .out, .stderr, .stdout, .txt)"
    )


def test_a_folder_that_is_no_run_folder_is_one_stage(tmp_path: Path) -> None:
    write(tmp_path / "slurm-12.out", nemo(1.0))
    write(tmp_path / "config.yaml", nemo(2.0))
    logs = parse_run(tmp_path)
    assert list(logs) == ["log"]
    assert len(logs["log"].steps) == 5


def test_files_that_differ_by_one_small_number_are_ranks(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"worker-{k}.out", nemo(1.0 + k)) for k in range(3)]
    log = parse_files(paths)
    assert [rank.rank for rank in log.ranks] == [0, 1, 2]
    assert log.restarts == 0


def test_files_that_differ_by_a_job_id_are_attempts(tmp_path: Path) -> None:
    first = write(tmp_path / "slurm-4711.out", nemo(1.0, range(4)))
    second = write(tmp_path / "slurm-4712.out", nemo(2.0, range(2, 5)))
    log = parse_files([first, second])
    assert [step.step_time_s for step in log.steps] == [1.0, 1.01, 2.02, 2.03, 2.04]
    assert (log.restarts, log.superseded) == (1, 2)


def test_both_streams_of_one_rank(tmp_path: Path) -> None:
    out = write(tmp_path / "rank0.out", nemo(1.0))
    err = write(tmp_path / "rank0.err", "`Trainer.fit` stopped: `max_steps=5` reached.\n")
    log = parse_files([err, out])
    assert (len(log.steps), log.ended, log.max_steps) == (5, True, 5)


def test_a_file_given_twice_or_linked_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", nemo(1.0))
    (tmp_path / "b.log").symlink_to(path)
    log = parse_files([path, path, tmp_path / "b.log"])
    assert len(log.sources) == 1
    assert log.notes == ()


def test_the_other_attempts_failure_is_not_the_runs(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with (folder / "logs/train/attempt-0/node-0-n1.log").open("a") as log:
        log.write("srun: error: n2: task 2: Exited with exit code 1\n")
    assert [failure.fatal for failure in parse_run(folder)["train"].failures] == [False]


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such file: .*/nothing\.log"):
        parse_files([tmp_path / "nothing.log"])
    with pytest.raises(
        UserError, match="no log to read: give a run folder, log files, or - for standard input"
    ):
        parse_files([])
    packed = tmp_path / "a.log.gz"
    packed.write_bytes(gzip.compress(nemo(1.0).encode()))
    with pytest.raises(UserError, match=r"a\.log\.gz is compressed \(gzip\): unpack it, or pipe it in"):
        parse_files([packed])


def test_a_given_format_is_not_asked_for_again(tmp_path: Path) -> None:
    path = write(tmp_path / "mixed.log", nemo(1.0) + (DATA / "maxtext_tiny_cpu.err").read_text())
    assert parse_files([path]).format == "nemo2"
    assert len(parse_files([path], format="maxtext").steps) == 12
