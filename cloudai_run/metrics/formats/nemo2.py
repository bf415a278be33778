"""NeMo 2: the progress printer's lines (`Training epoch 0, iteration 3/99 | lr: ... | global_step: 3 | ...`).

Keys come and go and change place (consumed_samples is missing on a process's first line and stands elsewhere
after a resume), so fields are read by key. The printer writes 4 significant digits.
"""

from __future__ import annotations

from cloudai_run.metrics.formats.base import (
    Collector,
    Format,
    Line,
    number,
    positive,
    whole_number,
    without_ansi,
)
from cloudai_run.metrics.samples import Step

_MARKER = "Training epoch "
_STEP_TIME = "train_step_timing in s"
_FLOATS = {
    "lr": "learning_rate",
    "reduced_train_loss": "loss",
    "grad_norm": "grad_norm",
    "val_loss": "val_loss",
}
_POSITIVE = {
    _STEP_TIME: "step_time_s",
    "TFLOPS_per_GPU": "framework_tflops_per_gpu",
    "tokens_per_sec_per_gpu": "tokens_per_s_per_gpu",
    "max_memory_reserved": "memory_reserved_bytes",
    "max_memory_allocated": "memory_allocated_bytes",
}
_WHOLE = {
    "global_step": "step",
    "global_batch_size": "global_batch_size",
    "consumed_samples": "consumed_samples",
}
_FIELD_OF = _FLOATS | _POSITIVE | _WHOLE


class Nemo2Parser:
    """Reads one source; remembers what tells a whole line from a cut one."""

    def __init__(self) -> None:
        self._consumed_comes_last = False
        self._last_step = -1
        self._val_loss: float | None = None

    def __call__(self, line: Line, out: Collector) -> None:
        """Reads one line, which may hold several steps if line ends were lost."""
        prefix, *pieces = without_ansi(line.text).split(_MARKER)
        if len(pieces) > 1:
            out.problem("lines glued together, read apart", line)
        for position, piece in enumerate(pieces, start=1):
            whole = position == len(pieces) and line.last_value_is_whole()
            self._piece(line, out, prefix if position == 1 else "", piece, whole)

    def finish(self, out: Collector) -> None:
        """Does nothing."""

    def _piece(self, line: Line, out: Collector, prefix: str, piece: str, whole: bool) -> None:
        head, *parts = piece.split("|")
        fields: dict[str, float | int | None] = {}
        last = len(parts) - 1
        key = ""
        for position, part in enumerate(parts):
            previous, (key, colon, text) = key, part.partition(":")
            key, text = key.strip(), text.strip()
            if not colon or not key[:1].isalpha():
                # A separator inside a number: what stood before it is only its first part.
                fields.pop(_FIELD_OF.get(previous, ""), None)
                out.problem("broken lines, read in part", line, _MARKER + piece)
                continue
            # Only a separator proves that a number is whole; the last one needs another proof.
            if position == last and not whole:
                continue
            self._field(line, out, fields, key, text)
        step = fields.pop("step", None)
        if not isinstance(step, int) or (last >= 0 and parts[last].strip().startswith("global_step")):
            out.problem("step lines not understood", line, _MARKER + piece)
            return
        if key == _STEP_TIME and "step_time_s" in fields and self._was_cut(step, fields):
            del fields["step_time_s"]
        if fields.get("step_time_s") is None:
            out.problem("step lines without a usable step time", line, _MARKER + piece)
        self._remember(step, fields, key, out, head)
        label = out.label(prefix)
        rank = out.rank if label.rank is None else label.rank
        out.steps.append(
            Step(
                step=step,
                rank=rank,
                node=label.node or out.node,
                attempt=out.attempt,
                source=out.source,
                offset=line.offset,
                line=line.line,
                **fields,  # type: ignore[arg-type]  # the tables above pair each field with its type
            )
        )

    def _field(
        self, line: Line, out: Collector, fields: dict[str, float | int | None], key: str, text: str
    ) -> None:
        value: float | int | None
        if (name := _POSITIVE.get(key)) is not None:
            value = positive(number(text))
        elif (name := _FLOATS.get(key)) is not None:
            value = number(text)
        elif (name := _WHOLE.get(key)) is not None:
            value = whole_number(text)
        else:
            return
        if value is None:
            out.problem(f"values of {key} not understood", line, text)
        else:
            fields[name] = value

    def _was_cut(self, step: int, fields: dict[str, float | int | None]) -> bool:
        """Whether a line that ends with the step time lacks what followed it on earlier lines."""
        return self._consumed_comes_last and "consumed_samples" not in fields and step > self._last_step

    def _remember(
        self, step: int, fields: dict[str, float | int | None], last_key: str, out: Collector, head: str
    ) -> None:
        self._consumed_comes_last |= last_key == "consumed_samples"
        self._last_step = step
        # The printer repeats the last validation's loss; a new value marks the step after a validation.
        val_loss = fields.get("val_loss")
        if val_loss is not None and val_loss != self._val_loss:
            self._val_loss = val_loss
            out.validations[step - 1] = val_loss
        done, _, batches = head.partition("iteration ")[2].strip().partition("/")
        if done.isdigit() and done == batches.strip():
            out.last_of_all = True


def _recognise(text: str) -> bool:
    return "iteration " in text and "|" in text and _MARKER in text


FORMAT = Format(
    name="nemo2",
    title="NeMo 2 (progress printer)",
    signs=(_MARKER.encode(),),
    markers=(_MARKER.encode(),),
    recognise=_recognise,
    new_parser=Nemo2Parser,
    example="Training epoch 0, iteration 3/99 | ... | global_step: 3 | ... | train_step_timing in s: 4.49",
)
