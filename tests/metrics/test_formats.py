"""Each variant of a step line that is known from public logs, read right to the digit."""

from __future__ import annotations

import io

import pytest

from cloudai_run.errors import UserError
from cloudai_run.metrics.parse import parse_stream
from cloudai_run.metrics.samples import FormatName, ParsedLog, Step


def parse(text: str) -> ParsedLog:
    return parse_stream(io.BytesIO(text.encode()), "test.log")


def only_step(text: str) -> Step:
    (step,) = parse(text).steps
    return step


NEMO2 = {
    "torchx prefix with a cut job name": (
        "i.finetune/0 Training epoch 0, iteration 0/99 | lr: 9.804e-08 | global_batch_size: 64 | "
        "global_step: 0 | reduced_train_loss: 1.077 | train_step_timing in s: 4.49\n",
        {
            "step": 0,
            "learning_rate": 9.804e-08,
            "global_batch_size": 64,
            "loss": 1.077,
            "step_time_s": 4.49,
            "consumed_samples": None,
            "rank": 0,
            "node": "i.finetune/0",
        },
    ),
    "srun label and validation fields": (
        "0: Training epoch 0, iteration 28/99 | lr: 5.6e-06 | global_batch_size: 32 | global_step: 28 | "
        "reduced_train_loss: 2.778 | train_step_timing in s: 0.189 | consumed_samples: 928 | "
        "val_loss: 2.861 | val_ppl: 17.57\n",
        {
            "step": 28,
            "loss": 2.778,
            "step_time_s": 0.189,
            "consumed_samples": 928,
            "val_loss": 2.861,
            "rank": 0,
        },
    ),
    "padded srun label": (
        " 12: Training epoch 0, iteration 3/9 | lr: 1e-4 | global_step: 3 | reduced_train_loss: 2.5 | "
        "train_step_timing in s: 1.25 | consumed_samples: 8\n",
        {"step": 3, "rank": 12, "step_time_s": 1.25, "learning_rate": 1e-4},
    ),
    "memory and FLOPs": (
        "Training epoch 0, iteration 74/99 | lr: 0.0001 | global_batch_size: 128 | global_step: 74 | "
        "max_memory_reserved: 64286097408 | max_memory_allocated: 62777982976 | reduced_train_loss: 11.87 | "
        "train_step_timing in s: 8.768 | TFLOPS_per_GPU: 865.7 | consumed_samples: 9600\n",
        {
            "step": 74,
            "memory_reserved_bytes": 64286097408,
            "memory_allocated_bytes": 62777982976,
            "step_time_s": 8.768,
            "framework_tflops_per_gpu": 865.7,
            "consumed_samples": 9600,
        },
    ),
    "scientific notation": (
        "Training epoch 0, iteration 7/99 | lr: 3e-05 | global_step: 7 | reduced_train_loss: 1.2e+01 | "
        "train_step_timing in s: 3.684 | TFLOPS_per_GPU: 1.831e+03 | consumed_samples: 9600\n",
        {"step_time_s": 3.684, "framework_tflops_per_gpu": 1831.0, "loss": 12.0},
    ),
    "integer learning rate": (
        "Training epoch 0, iteration 0/99 | lr: 0 | global_batch_size: 8 | global_step: 0 | "
        "reduced_train_loss: 10.5 | train_step_timing in s: 23.52\n",
        {"learning_rate": 0.0, "step_time_s": 23.52},
    ),
    "an epoch without end": (
        "Training epoch 0, iteration 0/49999999 | lr: 1e-4 | global_step: 0 | reduced_train_loss: 10.5 | "
        "train_step_timing in s: 2.5\n",
        {"step": 0, "step_time_s": 2.5},
    ),
    "a later epoch: the step is global_step": (
        "Training epoch 1, iteration 10/999 | lr: 1e-4 | global_batch_size: 8 | global_step: 29 | "
        "reduced_train_loss: 2.5 | train_step_timing in s: 0.5 | consumed_samples: 240\n",
        {"step": 29},
    ),
    "resumed: consumed_samples stands early": (
        "Training epoch 0, iteration 4/5 | lr: 7.496e-07 | consumed_samples: 2560 | global_batch_size: 512 | "
        "global_step: 4 | reduced_train_loss: 11.03 | train_step_timing in s: 53.16\n",
        {"step": 4, "consumed_samples": 2560, "step_time_s": 53.16, "global_batch_size": 512},
    ),
    "tokens per second": (
        "Training epoch 0, iteration 4/5 | global_step: 4 | reduced_train_loss: 11.03 | "
        "train_step_timing in s: 53.16 | tokens_per_sec_per_gpu: 1.227e+04 | consumed_samples: 2560\n",
        {"tokens_per_s_per_gpu": 12270.0},
    ),
    "torchrun and torchx labels": (
        "tinyexp/0 [default0]:Training epoch 0, iteration 1/2 | lr: 1e-4 | global_step: 1 | "
        "reduced_train_loss: 5.9 | train_step_timing in s: 0.05 | consumed_samples: 4\n",
        {"step": 1, "rank": 0, "node": "tinyexp/0"},
    ),
    "colours": (
        "\x1b[32m0: \x1b[0mTraining epoch 0, iteration 1/2 | lr: 1e-4 | global_step: 1 | "
        "reduced_train_loss: 5.9 | train_step_timing in s: \x1b[1m0.05\x1b[0m | consumed_samples: 4\n",
        {"step": 1, "step_time_s": 0.05, "rank": 0},
    ),
    "NaN loss": (
        "Training epoch 0, iteration 1/9 | lr: 1e-4 | global_step: 1 | reduced_train_loss: nan | "
        "train_step_timing in s: 0.05 | consumed_samples: 4\n",
        {"loss": "nan", "step_time_s": 0.05},
    ),
    "Windows line ends": (
        "Training epoch 0, iteration 1/9 | lr: 1e-4 | global_step: 1 | reduced_train_loss: 5.9 | "
        "train_step_timing in s: 0.05\r\n",
        {"step": 1, "step_time_s": 0.05},
    ),
}

DLLOGGER = {
    "short": (
        'DLLL {"step": 47, "data": {"reduced_train_loss": 7.89, "train_step_timing in s": 32.46}}\n',
        {"step": 47, "loss": 7.89, "step_time_s": 32.46},
    ),
    "long, step as float": (
        'DLLL {"timestamp": "1727486955.8", "datetime": "2024-09-28 01:29:15.829542", "elapsedtime": "495.5", '
        '"type": "LOG", "step": 2, "data": {"reduced_train_loss": 10.324285507202148, "lr": 1.565e-06, '
        '"global_step": 2.0, "consumed_samples": 6144.0, "grad_norm": 20.14983367919922, '
        '"train_step_timing in s": 52.8040657043457, "epoch": 0}}\n',
        {
            "step": 2,
            "loss": 10.324285507202148,
            "consumed_samples": 6144,
            "grad_norm": 20.14983367919922,
            "step_time_s": 52.8040657043457,
        },
    ),
    "NaN as JSON writers write it": (
        'DLLL {"step": 3, "data": {"reduced_train_loss": NaN, "train_step_timing in s": 1.5}}\n',
        {"step": 3, "loss": "nan", "step_time_s": 1.5},
    ),
}

BAR = "100%|██████████| "
NEMO1 = {
    "README of llama3.1 8b": (
        f"Epoch 0: : {BAR}100/100 [18:58<00:00, reduced_train_loss=6.190, global_step=99.00, "
        "consumed_samples=12800.0, train_step_timing in s=11.10]\n",
        {"step": 99, "loss": 6.19, "consumed_samples": 12800, "step_time_s": 11.1},
    ),
    "v_num first": (
        f"Epoch 0: : {BAR}100/100 [18:58<00:00, v_num=gjbq, reduced_train_loss=6.190, global_step=99.00, "
        "consumed_samples=12800.0, train_step_timing in s=24.00]\n",
        {"step": 99, "step_time_s": 24.0},
    ),
    "validation loss last": (
        f"Epoch 0: : {BAR}50/50 [18:58<00:00, v_num=, reduced_train_loss=6.190, global_step=50.00, "
        "consumed_samples=1.28e+4, train_step_timing in s=8.91, val_loss=6.250]\n",
        {"step": 50, "val_loss": 6.25, "step_time_s": 8.91, "consumed_samples": 12800},
    ),
    "no step timing at all": (
        f"Epoch 0: {BAR}40/40 [00:31<00:00,  1.27it/s, loss=10.9, v_num=, reduced_train_loss=10.90]\n",
        {"step": 40, "loss": 10.9, "step_time_s": None},
    ),
    "a step above 999: the count tells it": (
        "Epoch 0: : 50%|█████     | 1235/2000 [18:58<10:00, reduced_train_loss=6.190, global_step=1.23e+3, "
        "train_step_timing in s=11.10]\n",
        {"step": 1234, "step_time_s": 11.1},
    ),
    "unknown total": (
        "Epoch 0: : 7it [00:31,  4.27s/it, v_num=x]\rEpoch 0:   0%|          | 7/? [00:31<00:00, "
        "reduced_train_loss=6.0, global_step=6.000, train_step_timing in s=4.30]\n",
        {"step": 6, "step_time_s": 4.3},
    ),
}

MEGATRON_LM = {
    "no loss and no throughput": (
        "   iteration        1/  508626 | consumed samples:          288 | elapsed time per iteration (ms): "
        "255940.5 | learning rate: 0.000E+00 | global batch size:   288 | loss scale: 4294967296.0 | "
        "number of skipped iterations:   1 | number of nan iterations:   0 |\n",
        {
            "step": 1,
            "step_time_s": 255.9405,
            "loss": None,
            "framework_tflops_per_gpu": None,
            "global_batch_size": 288,
            "consumed_samples": 288,
            "skipped_iterations": 1,
            "nan_iterations": 0,
        },
    ),
    "all of today's fields": (
        " [2025-03-05 12:00:01.123456] iteration        7/      10 | consumed samples:         7168 | "
        "elapsed time per iteration (ms): 15800.0 | throughput per GPU (TFLOP/s/GPU): 490.0 | "
        "energy per GPU (J/iter/GPU): 9876.5 | power per GPU (W/GPU): 625.1 | learning rate: 4.500000E-07 | "
        "global batch size:  1024 | lm loss: 1.165436E+01 | seq_load_balancing_loss: 1.000203E+00 | "
        "loss scale: 1.0 | grad norm: 2.713 | num zeros: 1174412544.0 | params norm: 8660.607 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n",
        {
            "step": 7,
            "step_time_s": 15.8,
            "framework_tflops_per_gpu": 490.0,
            "learning_rate": 4.5e-07,
            "loss": 11.65436,
            "grad_norm": 2.713,
        },
    ),
    "seconds in the time stamp, torchrun label": (
        "[default0]: [2025-05-27 15:23:07] iteration        1/   24000 | consumed samples:         1024 | "
        "elapsed time per iteration (ms): 271607.0 | throughput per GPU (TFLOP/s/GPU): 40.4 | "
        "learning rate: 1.500000E-06 | global batch size:  1024 | lm loss: 1.192634E+01 | "
        "load_balancing_loss: 1.041994E+00 | loss scale: 1.0 | grad norm: 5.960 | "
        "number of skipped iterations:    0 | number of nan iterations:    0 |\n",
        {"step": 1, "step_time_s": 271.607, "loss": 11.92634, "rank": 0},
    ),
    "interval and running mean": (
        " iteration        3/       9 | consumed samples: 24 | elapsed time per iteration (ms): 4000.5/4010.0 | "
        "throughput per GPU (TFLOP/s/GPU): 41.5/40.1 | global batch size: 8 | lm loss: 3.0E+00 |\n",
        {"step": 3, "step_time_s": 4.0005, "framework_tflops_per_gpu": 41.5},
    ),
    "NaN gradient": (
        " iteration        3/       9 | consumed samples: 24 | elapsed time per iteration (ms): 4000.0 | "
        "grad norm: nan | number of skipped iterations:   0 | number of nan iterations:   1 |\n",
        {"grad_norm": "nan", "loss": None, "nan_iterations": 1},
    ),
}

MAXTEXT = {
    "old": (
        "completed step: 1, seconds: 8.693, TFLOP/s: 1.731, loss: 9.206\n",
        {"step": 1, "step_time_s": 8.693, "framework_tflops_per_gpu": 1.731, "loss": 9.206},
    ),
    "2024-03, behind a hash": (
        "# completed step: 0, seconds: 36.350, TFLOP/s/device: 28.423, loss: 1.966\n",
        {"step": 0, "step_time_s": 36.35, "framework_tflops_per_gpu": 28.423, "loss": 1.966},
    ),
    "2024-25": (
        "completed step: 11, seconds: 20.935, TFLOP/s/device: 1507.142, Tokens/s/device: 3130.521, "
        "total_weights: 16777216, loss: 12.329\n",
        {
            "step": 11,
            "step_time_s": 20.935,
            "framework_tflops_per_gpu": 1507.142,
            "tokens_per_s_per_gpu": 3130.521,
            "loss": 12.329,
        },
    ),
    "2026, absl prefix": (
        "I0706 16:50:26.230209 140112233445 metric_logger.py:214] completed step: 1, seconds: 24.930, "
        "TFLOP/s/device: 0.861, Tokens/s/device: 164.297, total_weights: 6965, loss: 0.693, lm_loss: 0.000, "
        "perplexity: 2.000, reward_accuracy: 0.000\n",
        {"step": 1, "step_time_s": 24.93, "framework_tflops_per_gpu": 0.861, "loss": 0.693},
    ),
    "a rate too small for three decimals is missing, not zero": (
        "completed step: 1, seconds: 0.559, TFLOP/s/device: 0.000, Tokens/s/device: 114.485, loss: 7.129\n",
        {"framework_tflops_per_gpu": None, "tokens_per_s_per_gpu": 114.485},
    ),
}

PAXML = {
    "two decimals": (
        "I0411 15:03:26.866614 140737350317184 programs.py:366] [PAX STATUS]: train_step() took 7.47 seconds.\n",
        {"step": 0, "step_time_s": 7.47},
    ),
    "six decimals": (
        "I0508 15:25:28.482553 140737334253888 programs.py:379] "
        "[PAX STATUS]: train_step() took 38.727223 seconds.\n",
        {"step": 0, "step_time_s": 38.727223},
    ),
    "2023": (
        "I0411 15:03:26.866614 140737350317184 programs.py:366]   Completed train_step() in 0.634000 seconds.\n",
        {"step": 0, "step_time_s": 0.634},
    ),
    "srun label": (
        "17: I0411 15:03:26.866614 140737350317184 programs.py:366] "
        "[PAX STATUS]: train_step() took 0.634 seconds.\n",
        {"step": 0, "step_time_s": 0.634, "rank": 17},
    ),
}

BRIDGE_ITERATION = (
    "ain_fp8_mx/0  [2025-12-22 15:18:33] iteration       50/      50 | consumed samples:        25600 | "
    "elapsed time per iteration (ms): 9089.0 | learning rate: 3.000000E-05 | global batch size:   512 | "
    "lm loss: 7.123456E+00 | load_balancing_loss: 1.05E+00 | mtp_1 loss: 7.5E+00 | loss scale: 1.0 | "
    "grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
BRIDGE = {
    "both lines": (
        "ain_fp8_mx/0 Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n\n" + BRIDGE_ITERATION,
        {
            "step": 50,
            "step_time_s": 9.089,
            "framework_tflops_per_gpu": 663.5,
            "loss": 7.123456,
            "grad_norm": 1.234,
            "node": "ain_fp8_mx/0",
        },
    ),
    "0 TFLOP/s means missing": (
        "Step Time : 9.09s GPU utilization: 0.0MODEL_TFLOP/s/GPU\n" + BRIDGE_ITERATION,
        {"step": 50, "framework_tflops_per_gpu": None, "step_time_s": 9.089},
    ),
    "later spelling": (
        "Step Time: 0.50s , 32680.36 tok/s/gpu, GPU utilization: 257.1 MODEL_TFLOP/s/GPU , Peak Mem: 64.5GB\n",
        {"step": 1, "step_time_s": 0.5, "framework_tflops_per_gpu": 257.1},
    ),
}

CASES: dict[FormatName, dict[str, tuple[str, dict[str, object]]]] = {
    "nemo2": NEMO2,
    "nemo2_dllogger": DLLOGGER,
    "nemo1": NEMO1,
    "megatron_lm": MEGATRON_LM,
    "megatron_bridge": BRIDGE,
    "maxtext": MAXTEXT,
    "paxml": PAXML,
}


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        pytest.param(format, text, expected, id=f"{format}: {name}")
        for format, cases in CASES.items()
        for name, (text, expected) in cases.items()
    ],
)
def test_variant(format: FormatName, text: str, expected: dict[str, object]) -> None:
    log = parse(text)
    assert log.format == format
    (step,) = log.steps
    found = {name: "nan" if value != value else value for name, value in vars(step).items()}
    defaults = {name: getattr(step, name) for name in expected}
    assert {name: found.get(name, defaults[name]) for name in expected} == expected
    assert log.problems == ()


def test_bridge_pairs_lines_of_two_files_by_occurrence_and_by_time() -> None:
    iteration = " iteration {0}/ 4 | elapsed time per iteration (ms): {1} | lm loss: 5.0E+00 |\n"
    times = [(1, 125370.2), (2, 6128.1), (3, 4655.9), (4, 2260.0)]
    lines = "".join(iteration.format(*time) for time in times)
    rates = (
        "Step Time : 125.37s GPU utilization: 20.9MODEL_TFLOP/s/GPU\n"
        "Step Time : 4.66s GPU utilization: 561.8MODEL_TFLOP/s/GPU\n"
        "Step Time : 2.26s GPU utilization: 1156.0MODEL_TFLOP/s/GPU\n"
    )
    log = parse(lines + rates)
    assert log.format == "megatron_bridge"
    assert [(step.step, step.framework_tflops_per_gpu) for step in log.steps] == [
        (1, 20.9),
        (2, None),
        (3, 561.8),
        (4, 1156.0),
    ]
    assert log.problems == ()


def test_bridge_without_iteration_lines_numbers_them_and_says_so() -> None:
    log = parse("Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n" * 2)
    assert [step.step for step in log.steps] == [1, 2]
    assert any("ordinals" in note for note in log.notes)


def test_megatron_log_interval_and_validation_and_checkpoint() -> None:
    text = "".join(
        f" iteration {n:8d}/  100 | consumed samples: {n * 8} | elapsed time per iteration (ms): 500.0 | "
        "number of skipped iterations:  10 | number of nan iterations:  0 |\n"
        + (
            " validation loss at iteration 20 | lm loss value: 6.5E+00 | lm loss PPL: 6.6E+02 | \n"
            if n == 20
            else ""
        )
        + (
            "  successfully saved checkpoint from iteration      20 to /ckpt [ t 1/1, p 1/1 ]\n"
            if n == 20
            else ""
        )
        for n in (10, 20, 30)
    )
    log = parse(text)
    assert [(step.step, step.covers_steps) for step in log.steps] == [(10, 10), (20, 10), (30, 10)]
    assert log.steps[1].val_loss == 6.5
    assert log.validation_steps == {20}
    assert log.checkpoint_steps == {20}
    assert log.max_steps == 100
    assert log.ended is False


def test_megatron_end_is_the_last_iteration() -> None:
    text = " iteration  9/ 10 | elapsed time per iteration (ms): 5.0 |\n"
    assert parse(text).ended is False
    assert parse(text + text.replace(" 9/", " 10/")).ended is True


def test_bus_bandwidth_line_alone_is_no_training_log() -> None:
    with pytest.raises(UserError, match="no step line of a known format"):
        parse("# Avg bus bandwidth    : 52.9753\n")


def test_paxml_losses_stand_on_their_own_lines() -> None:
    text = (
        "I1 [PAX STATUS]: train_step() took 1.5 seconds.\n"
        "I1 [PAX STATUS] step_i: 0, training loss: 9.5\n"
        "I1 [PAX STATUS] step_i: 1900, training loss: 3.47e-05\n"
    )
    log = parse(text)
    assert [(step.step, step.step_time_s, step.loss) for step in log.steps] == [
        (0, 1.5, 9.5),
        (1900, None, 3.47e-05),
    ]


def test_paxml_resumed_and_mixed_up_lines_are_numbered_by_time_stamp() -> None:
    def line(second: int, text: str) -> str:
        return f"I0411 15:03:{second:02d}.000000 140737350317184 programs.py:366] [PAX STATUS]: {text}\n"

    lines = [line(1, "Starting training loop."), line(2, "Beginning step `100`.")]
    for k in range(4):
        lines.append(line(3 + 2 * k, f"train_step() took {k + 1}.5 seconds."))
        lines.append(line(4 + 2 * k, f"Beginning step `{101 + k}`."))
    expected = [(100, 1.5), (101, 2.5), (102, 3.5), (103, 4.5)]
    for order in (lines, lines[::-1], lines[5:] + lines[:5]):
        assert [(step.step, step.step_time_s) for step in parse("".join(order)).steps] == expected
    assert [step.step for step in parse("".join(lines[4:])).steps] == [101, 102, 103]


def test_paxml_ranks_without_labels_are_told_apart_by_thread() -> None:
    def line(thread: int, second: int, text: str) -> str:
        return f"I0411 15:03:{second:02d}.000000 {thread} x.py:1] {text}\n"

    took = "[PAX STATUS]: train_step() took {} seconds."
    steps = [line(thread, 10 + k, took.format(thread + k)) for k in range(3) for thread in (100, 200)]
    unknown = parse("".join(steps))
    assert [(step.node, step.step, step.step_time_s) for step in unknown.steps] == [
        (f"thread {thread}", k, thread + k) for thread in (100, 200) for k in range(3)
    ]
    named = [line(100, 1, "JAX process: 1 / 2"), line(200, 1, "JAX process: 0 / 2"), *steps]
    assert [(step.rank, step.step_time_s) for step in parse("".join(named)).steps] == [
        *((0, 200 + k) for k in range(3)),
        *((1, 100 + k) for k in range(3)),
    ]


def test_dllogger_knows_which_steps_were_profiled() -> None:
    parameters = (
        'DLLL {"step": "PARAMETER", "data": {"cfg/nsys_profile/enabled": true, '
        '"cfg/nsys_profile/start_step": 45, "cfg/nsys_profile/end_step": 47}}\n'
    )
    log = parse(parameters + 'DLLL {"step": 1, "data": {"train_step_timing in s": 2.5}}\n')
    assert log.profiled_steps == (45, 47)


def test_nemo1_says_that_it_has_no_step_times() -> None:
    log = parse(NEMO1["no step timing at all"][0])
    assert any("no step times can be given" in note for note in log.notes)
