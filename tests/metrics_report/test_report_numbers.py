"""What a report says of each kind of run: numbers, why some are missing, how the job ended."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from cloudai_run.executors.outcome import Outcome
from cloudai_run.executors.planning import LOCAL_SCRIPT_FILE, SCRIPT_FILE
from cloudai_run.executors.states import JobState
from cloudai_run.metrics.compare_config import RunFacts
from cloudai_run.metrics.load import SCRIPT_FILES, NoSteps, load_report
from cloudai_run.metrics.models import model_shape
from cloudai_run.metrics.parse import parse_files
from cloudai_run.metrics.report import Report
from cloudai_run.metrics.report_build import build_report, shape_of
from cloudai_run.metrics.throughput import RunShape
from tests.metrics_report import runs_to_report
from tests.metrics_report.folders import nemo_log, record, steps_of, write_folder
from tests.metrics_report.runs_to_report import FOLDER, NCCL_LOG


def report_of(run: Path) -> Report:
    return load_report([str(run)])


def log_report(text: str, *, job: Outcome | None = None, window: str | None = None) -> Report:
    """The report of one log file whose job ended so."""
    Path("run.log").write_text(text, encoding="utf-8")
    logs = {"train": parse_files([Path("run.log")])}
    return build_report(
        logs, label="run.log", facts=RunFacts(record={}), shape=RunShape(), job=job, window=window
    )


def test_a_line_that_stands_in_two_files_is_one_step() -> None:
    report = report_of(runs_to_report.nemo())
    assert [step.step for step in report.main.log.steps] == list(range(60))
    assert report.main.log.restarts == 0
    assert report.main.values["step_time_s"] == pytest.approx(median(steps_of(60)[10:]), rel=1e-6)


def test_throughput_follows_from_the_record() -> None:
    values = report_of(runs_to_report.nemo()).main.values
    tokens = 128 * 8192 / 8 / values["step_time_s"]
    assert values["tokens_per_s_per_gpu"] == pytest.approx(tokens)
    assert values["mfu"] == pytest.approx(tokens * 0.0514735e12 / 1979e12, rel=1e-4)
    assert values["mfu_non_causal"] / values["mfu"] == pytest.approx(1.125, rel=1e-3)


def test_intervals_of_derived_metrics_follow_the_step_time() -> None:
    stage = report_of(runs_to_report.nemo()).main
    time = stage.step_time
    assert time is not None
    assert stage.interval("step_time_s") == (time.median_low, time.median_high)
    for name, value in stage.values.items():
        bounds = stage.interval(name)
        if name == "loss":
            assert bounds is None
            continue
        assert bounds is not None
        assert bounds[0] <= value <= bounds[1]
    low, high = stage.interval("tokens_per_s") or (0.0, 0.0)
    assert time.median_high is not None
    assert low == pytest.approx(128 * 8192 / time.median_high)
    assert high > low


def test_the_measured_stage_gives_the_runs_numbers() -> None:
    report = report_of(runs_to_report.paxml())
    assert report.measured == "perf"
    assert [stage.name for stage in report.stages] == ["profile", "perf"]
    assert report.main.values["step_time_s"] == pytest.approx(2.9 * 1.00125 * 1.0025, rel=1e-3)
    assert report.run_data().stage == "perf"


def test_another_stage_never_stands_for_the_measured_one() -> None:
    report = report_of(runs_to_report.paxml_profile_failed())
    assert report.measured == "perf"
    assert report.status == "invalid"
    assert report.main.values == {}
    assert report.main.missing == {"step_time_s": "stage perf, which is the measured one, did not start"}


def test_a_measured_stage_with_an_unknown_log() -> None:
    run = runs_to_report.paxml_profile_failed()
    (run / "logs" / "perf").mkdir()
    (run / "logs" / "perf" / "rank-0.log").write_text("hello\n", encoding="utf-8")
    with (run / "stages.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"attempt": 0, "stage": "perf", "event": "start", "time_unix_s": 1.0}\n')
    assert report_of(run).reasons[-1] == "stage perf, which is the measured one, left no log with steps"


def test_a_job_ended_by_its_time_limit_is_incomplete_and_its_numbers_stand() -> None:
    report = report_of(runs_to_report.incomplete())
    assert report.status == "incomplete"
    assert report.main.values["step_time_s"] == pytest.approx(10.005, rel=1e-3)
    assert not any("rank_failed" in reason for reason in report.reasons)


@pytest.mark.parametrize(
    "state", [JobState.TIMEOUT, JobState.CANCELLED, JobState.PREEMPTED, JobState.NODE_FAIL]
)
def test_slurm_alone_says_that_a_job_was_ended(state: JobState) -> None:
    text = nemo_log(steps_of(30), ended=False, max_steps=60) + "srun: error: node1: task 0: Terminated\n"
    report = log_report(text, job=Outcome(state=state, exit_code=143, job_id="42", stage="train"))
    assert report.status == "incomplete"
    assert report.reasons[0] == f"job 42 {state} in stage train with exit code 143"
    assert report.reasons[1] == "no end marker in the log, and the last step is 29"


def test_without_that_a_rank_that_was_terminated_has_failed() -> None:
    text = nemo_log(steps_of(30), ended=False, max_steps=60) + "srun: error: node1: task 0: Terminated\n"
    assert log_report(text).status == "invalid"


def test_a_job_that_failed_elsewhere_is_incomplete_though_its_log_is_whole() -> None:
    job = Outcome(state=JobState.FAILED, exit_code=3, job_id="42", stage="cleanup")
    report = log_report(nemo_log(steps_of(30)), job=job)
    assert report.main.validity.status == "valid"
    assert (report.status, report.reasons) == (
        "incomplete",
        ("job 42 FAILED in stage cleanup with exit code 3",),
    )
    assert report.run_data().status == "incomplete"


def test_a_job_that_goes_on_is_incomplete() -> None:
    job = Outcome(state=JobState.RUNNING, job_id="42", stage="train")
    report = log_report(nemo_log(steps_of(30), ended=False, max_steps=60), job=job)
    assert report.reasons[0] == "the job has not ended: job 42 RUNNING (stage train)"
    assert report.status == "incomplete"


def test_the_last_attempt_counts() -> None:
    report = report_of(runs_to_report.requeued())
    assert report.status == "valid"
    assert report.main.values["step_time_s"] == pytest.approx(10.005, rel=1e-3)
    assert {step.attempt for step in report.main.log.steps} == {1}
    assert report.facts.nodes == ("node2",)


def test_an_attempt_without_an_end_does_not_take_the_exit_code_of_the_one_before() -> None:
    run = runs_to_report.nemo()
    lines = (run / "stages.jsonl").read_text(encoding="utf-8").splitlines()
    lines[1] = lines[1].replace('"exit_code": 0', '"exit_code": 1')
    lines.append(lines[0].replace('"attempt": 0', '"attempt": 1'))
    (run / "stages.jsonl").write_text("\n".join(lines) + '\n{"torn', encoding="utf-8")
    report = report_of(run)
    assert report.main.validity.status == "valid"
    assert report.job is not None
    assert report.job.state is JobState.UNKNOWN


def test_the_straggler_is_named() -> None:
    ranks = report_of(runs_to_report.straggler()).main.ranks
    assert ranks is not None
    assert [(rank.rank, rank.node) for rank in ranks.stragglers] == [(11, "node1")]
    assert len(ranks.ranks) == 16


def test_a_smoke_run_has_no_numbers_that_invite_comparison() -> None:
    report = report_of(runs_to_report.smoke())
    assert set(report.main.values) == {
        "step_time_s",
        "tokens_per_s_per_gpu",
        "tokens_per_s",
        "samples_per_s",
        "loss",
    }
    assert report.main.framework_check is None
    why = "says nothing about a CPU smoke run, whose model is a miniature"
    hidden = ("mfu", "mfu_non_causal", "tflops_per_gpu", "days_to_1t_tokens", "framework_tflops_per_gpu")
    assert {report.main.missing[name] for name in hidden} == {why}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"multi_latent_attention": True},
            "llama3_8b: the FLOPs of multi-latent attention are not implemented",
        ),
        (
            {"moe_layer_freq": [0, 1]},
            "llama3_8b: the FLOPs of a model with experts in some layers only are not implemented",
        ),
        ({"vocab_size": None}, "llama3_8b: the model's shape needs vocab_size as a whole number, got None"),
    ],
)
def test_a_model_without_flops_says_why(changes: dict[str, object], why: str) -> None:
    model = {**model_shape("llama3_8b").to_mapping(), **changes}
    run = write_folder(FOLDER, record(model=model), {"train/rank-0.log": nemo_log(steps_of(30))})
    missing = report_of(run).main.missing
    names = ("tflops_per_gpu", "tflops_per_gpu_non_causal", "mfu", "mfu_non_causal")
    assert {missing[name] for name in names} == {why}


def test_a_run_without_a_model_says_so() -> None:
    run = write_folder(FOLDER, record(model=None), {"train/rank-0.log": nemo_log(steps_of(30))})
    assert report_of(run).main.missing["mfu"] == "the model's shape is not known"


def test_what_is_given_wins_over_the_record() -> None:
    given = RunShape(num_gpus=16, gpu_model="B200", model=model_shape("llama3_70b"))
    shape = shape_of({"num_nodes": 1, "num_gpus_per_node": 8, "gpu_model": "H100", "precision": "fp8"}, given)
    assert (shape.num_gpus, shape.gpu_model, shape.precision) == (16, "B200", "fp8")
    assert shape.model == model_shape("llama3_70b")


def test_bandwidths_of_an_nccl_log() -> None:
    report = log_report(NCCL_LOG)
    assert report.status == "valid"
    assert report.main.values == {
        "busbw_gb_per_s": 359.922,
        "algbw_gb_per_s": pytest.approx((137.11 + 137.11 + 274.23 + 274.22) / 4),
    }
    assert report.main.counts == {"busbw_gb_per_s": 2, "algbw_gb_per_s": 2}


def test_an_nccl_log_with_wrong_values_is_invalid() -> None:
    report = log_report(NCCL_LOG.replace("values : 0 OK", "values : 7 FAILED"))
    assert (report.status, report.reasons) == ("invalid", ("all_reduce_perf: 7 values out of bounds",))


def test_an_nccl_log_that_was_cut_has_no_average() -> None:
    report = log_report(NCCL_LOG[: NCCL_LOG.index("# Out of bounds")])
    why = "all_reduce_perf: the table ends at 17179869184 bytes without its average"
    assert (report.status, report.reasons) == ("incomplete", (why,))
    assert report.main.values == {}
    assert report.main.missing["busbw_gb_per_s"] == "the table has no average: it was cut before its end"


def test_several_collectives_have_no_common_bandwidth() -> None:
    report = log_report(NCCL_LOG + NCCL_LOG.replace("all_reduce", "all_gather"))
    assert report.main.values == {}
    assert report.main.missing["busbw_gb_per_s"] == "the log holds 2 tables: give one collective at a time"


def test_nan_beside_other_numbers_is_invalid() -> None:
    report = report_of(runs_to_report.nan())
    assert report.status == "invalid"
    assert report.reasons == ("loss is nan from step 21 (39 steps)",)
    assert report.main.loss_first == 11.0
    assert report.main.loss is not None
    assert report.main.loss.count == 11


def test_a_run_that_was_never_submitted() -> None:
    run = write_folder(FOLDER, record(), {})
    with pytest.raises(NoSteps) as caught:
        report_of(run)
    assert str(caught.value) == (
        "run llama3_8b_20261201T000000Z has no steps to report\n"
        "  it was not submitted, or its folder is not whole: run"
    )


def test_a_run_whose_logs_are_not_known_says_how_its_job_ended() -> None:
    run = write_folder(FOLDER, record(), {"train/rank-0.log": "hello\n"}, exit_codes={"train": 7})
    with pytest.raises(NoSteps) as caught:
        report_of(run)
    assert str(caught.value) == (
        "run llama3_8b_20261201T000000Z has no steps to report\n  job FAILED in stage train with exit code 7"
    )


def test_profiled_steps_are_left_out() -> None:
    run = write_folder(
        FOLDER, record(profiled_steps={"train": [20, 24]}), {"train/rank-0.log": nemo_log(steps_of(60))}
    )
    reasons = {item.step: item.reason for item in report_of(run).main.window.excluded}
    assert [step for step, reason in reasons.items() if reason == "profiled"] == list(range(20, 26))


def test_run_data_of_a_report() -> None:
    report = report_of(runs_to_report.nemo())
    run = report.run_data()
    assert (run.label, run.smoke, run.status, run.framework) == (report.label, False, "valid", "nemo")
    assert len(run.step_time_s) == 50
    assert run.values == report.main.values


def test_the_script_is_found_where_the_executors_leave_it() -> None:
    assert SCRIPT_FILES == (SCRIPT_FILE, LOCAL_SCRIPT_FILE)
    run = runs_to_report.nemo()
    assert (report_of(run).script or "").startswith("#!/bin/bash")
    (run / "sbatch.sh").rename(run / LOCAL_SCRIPT_FILE)
    assert (report_of(run).script or "").startswith("#!/bin/bash")
    (run / LOCAL_SCRIPT_FILE).unlink()
    assert report_of(run).script is None


def test_a_folder_without_a_record_is_read_by_its_stages() -> None:
    run = runs_to_report.paxml()
    (run / "run.json").unlink()
    report = report_of(run)
    assert (report.label, report.measured, report.status) == ("run", "perf", "valid")
    assert [stage.name for stage in report.stages] == ["profile", "perf"]
    assert report.facts.nodes == ("n1", "n2")
    assert report.main.missing["mfu"] == "global_batch_size and seq_length and num_gpus are not known"
