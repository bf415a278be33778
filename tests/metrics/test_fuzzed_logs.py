"""Damaged logs never crash a parser and never make it invent a step.

The damage: lines shuffled, dropped, repeated; the text cut at its start, at its end or within lines; line ends
lost (glued) or put in; bytes injected. Not among it is damage that no reader could see, such as a digit put
into a number: injected are bytes that cannot stand in one.
"""

from __future__ import annotations

import io
import random
from collections.abc import Set
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudai_run.errors import UserError
from cloudai_run.metrics.parse import parse_stream
from cloudai_run.metrics.samples import ParsedLog

DATA = Path(__file__).parent / "data"


def _megatron() -> bytes:
    lines = [
        f" [2025-03-05 12:00:{k:02d}] iteration {k:8d}/ 30 | consumed samples: {k * 1024:12d} | "
        f"elapsed time per iteration (ms): {15800.0 + 3.7 * k:.1f} | throughput per GPU (TFLOP/s/GPU): 490.0 | "
        f"learning rate: 4.5E-07 | global batch size:  1024 | lm loss: {11 - k / 10:.6E} | grad norm: 2.713 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        for k in range(1, 31)
    ]
    return "".join(lines).encode()


def _bridge() -> bytes:
    lines = _megatron().decode().splitlines(keepends=True)
    rates = [
        f"ain/0 Step Time : {(15800.0 + 3.7 * k) / 1000:.2f}s GPU utilization: {600 + k}.5MODEL_TFLOP/s/GPU\n"
        for k in range(1, 31)
    ]
    return "".join(rate + line for rate, line in zip(rates, lines, strict=True)).encode()


def _nemo1() -> bytes:
    bars = [
        f"Epoch 0: : {k}%|██        | {k + 1}/30 [00:58<01:00, v_num=, reduced_train_loss={6 - k / 100:.3f}, "
        f"global_step={k}.000, consumed_samples={k * 128}.0, train_step_timing in s={11.1 + k / 50:.2f}]"
        for k in range(30)
    ]
    return "\r".join(bars).encode() + b"\n"


def _dllogger() -> bytes:
    return "".join(
        f'DLLL {{"type": "LOG", "step": {k}, "data": {{"reduced_train_loss": {9 - k / 7}, '
        f'"global_step": {k}.0, "train_step_timing in s": {25.1 + k / 9}}}}}\n'
        for k in range(30)
    ).encode()


def _with_labels() -> bytes:
    lines = (DATA / "nemo_tiny25_long.log").read_text().splitlines(keepends=True)
    return "".join(f"{k % 3}: {line}" for k, line in enumerate(lines)).encode()


LOGS: dict[str, bytes] = {
    "nemo2": (DATA / "nemo_tiny25_long.log").read_bytes(),
    "nemo2 resumed": (DATA / "nemo_tiny25_ck2.log").read_bytes(),
    "nemo2 with labels": _with_labels(),
    "nemo2_dllogger": _dllogger(),
    "nemo1": _nemo1(),
    "megatron_lm": _megatron(),
    "megatron_bridge": _bridge(),
    "paxml": (DATA / "pax_two_ranks_rank0.err").read_bytes(),
    "maxtext": (DATA / "maxtext_tiny_cpu.err").read_bytes(),
}
FAST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LOG = st.sampled_from(sorted(LOGS))
SEED = st.integers(0, 2**32)
# No digit, sign, dot or exponent; separators of the formats are among them.
_SEPARATORS = rb"|~ | ~,~, ~:~: ~ ~]~[~{~}~_~=~/~TRAIN DONE~seconds.".split(b"~")
_BYTES = [b"\x00", b"\xff\xfe", b"\x1b[", b"\x1b[31m", b"\xe2\x96\x88", b"\n", b"\r", b"\r\n", b"\t", b"\x85"]
JUNK = st.sampled_from([*_SEPARATORS, *_BYTES])


def parse(data: bytes) -> ParsedLog | None:
    """Returns the log; None if the damage left nothing that is known."""
    try:
        return parse_stream(io.BytesIO(data))
    except UserError:
        return None


def facts(data: bytes) -> dict[str, Set[object]]:
    log = parse(data)
    assert log is not None
    steps = log.steps
    # Megatron-Bridge says times and TFLOP/s twice.
    times = [step.step_time_s for step in steps if step.step_time_s is not None]
    return {
        "step and time": {(step.step, step.step_time_s) for step in steps},
        "step": {step.step for step in steps},
        "time": {*times, *(round(time, 2) for time in times if b"Step Time" in data)},
        "loss": {step.loss for step in steps} | {None},
        "TFLOP/s": {step.framework_tflops_per_gpu for step in steps} | {None, 490.0},
    }


FACTS = {name: facts(data) for name, data in LOGS.items()}


def assert_nothing_invented(name: str, damaged: bytes) -> None:
    log = parse(damaged)
    if log is None:
        return
    known = FACTS[name]
    for step in log.steps:
        assert step.step in known["step"], step
        assert step.step_time_s in known["time"] | {None}, step
        assert step.loss in known["loss"], step
        assert step.framework_tflops_per_gpu in known["TFLOP/s"], step
        # PAXML's numbers are ordinals, so lost lines move them; so are those of Megatron-Bridge's Step Time
        # lines where no iteration line is left.
        if name != "paxml" and step.step_time_s is not None and "ordinals" not in " ".join(log.notes):
            assert (step.step, step.step_time_s) in known["step and time"], step


@pytest.mark.parametrize("name", sorted(LOGS))
def test_the_logs_are_whole(name: str) -> None:
    log = parse(LOGS[name])
    assert log is not None
    assert log.problems == ()
    assert len(log.steps) >= 3


@FAST
@given(LOG, SEED)
def test_shuffled_lines(name: str, seed: int) -> None:
    lines = LOGS[name].splitlines(keepends=True)
    random.Random(seed).shuffle(lines)
    damaged = b"".join(lines)
    assert_nothing_invented(name, damaged)
    log = parse(damaged)
    assert log is not None
    # With shuffled lines the pairing of Megatron-Bridge's two lines is gone, but not its steps.
    assert {step.step for step in log.steps} == FACTS[name]["step"]


@FAST
@given(LOG, st.floats(0, 1), st.floats(0, 1))
def test_cut_at_both_ends(name: str, start: float, stop: float) -> None:
    data = LOGS[name]
    low, high = sorted((int(start * len(data)), int(stop * len(data))))
    assert_nothing_invented(name, data[low:high])


@FAST
@given(LOG, SEED, st.floats(0, 0.3))
def test_lines_cut_at_their_ends_and_dropped_and_repeated(name: str, seed: int, share: float) -> None:
    generator = random.Random(seed)
    damaged: list[bytes] = []
    for line in LOGS[name].splitlines(keepends=True):
        if generator.random() < share:
            kind = generator.randrange(3)
            if kind == 0:
                continue
            if kind == 1:
                damaged.append(line)
            else:
                # The end of the line is lost with its line end: the next line follows at once.
                line = line[: generator.randrange(len(line))]
        damaged.append(line)
    assert_nothing_invented(name, b"".join(damaged))


@FAST
@given(LOG, SEED, st.floats(0, 0.5))
def test_glued_lines(name: str, seed: int, share: float) -> None:
    generator = random.Random(seed)
    lines = LOGS[name].splitlines(keepends=True)
    damaged = [line.rstrip(b"\r\n") if generator.random() < share else line for line in lines]
    assert_nothing_invented(name, b"".join(damaged))


@FAST
@given(LOG, st.lists(st.tuples(st.floats(0, 1), JUNK), min_size=1, max_size=30))
def test_injected_bytes(name: str, places: list[tuple[float, bytes]]) -> None:
    data = bytearray(LOGS[name])
    for place, junk in places:
        at = int(place * len(data))
        data[at:at] = junk
    assert_nothing_invented(name, bytes(data))


@FAST
@given(st.binary(max_size=2000), st.sampled_from(sorted(LOGS)))
def test_any_bytes_around_a_line(noise: bytes, name: str) -> None:
    lines = LOGS[name].splitlines(keepends=True)
    parse(noise)
    parse(noise + lines[len(lines) // 2] + noise)
    parse(lines[-1] + noise + lines[len(lines) // 2])


@FAST
@given(
    st.text(alphabet='Training epoch 0,iteration 1/2|:=[]{}"stepconds.\n\r' + "0123456789eE+-", max_size=400)
)
def test_any_text_of_the_formats_letters(text: str) -> None:
    parse(f"Training epoch 0, iteration 0/1 | global_step: 1 | {text}\n{text}".encode())
    parse(f'DLLL {{"step": 1, "data": {{{text}\n{text}'.encode())
    parse(
        f"#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n8 2 float {text}".encode()
    )
    parse(f'{{"results":[{{"size":8,{text}'.encode())
