"""NeMo 2: the progress printer's lines (`Training epoch 0, iteration 3/99 | lr: ... | global_step: 3 | ...`).

Keys come and go and change place (consumed_samples is missing on a process's first line and stands elsewhere
after a resume), so fields are read by key. The printer writes 4 significant digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from cloudai_run.metrics.formats.base import (
    Collector,
    Format,
    Line,
    Place,
    number,
    positive,
    whole_number,
    without_ansi,
)
from cloudai_run.metrics.formats.layout import LINE_END, Fields, Layout

_MARKER = "Training epoch "
_STEP_TIME = "train_step_timing in s"


def _positive(text: str) -> float | None:
    return positive(number(text))


# The printer's key, the field of `Step`, and how its text is read.
_FIELDS: dict[str, tuple[str, Callable[[str], float | int | None]]] = {
    "lr": ("learning_rate", number),
    "global_batch_size": ("global_batch_size", whole_number),
    "global_step": ("step", whole_number),
    "max_memory_reserved": ("memory_reserved_bytes", _positive),
    "max_memory_allocated": ("memory_allocated_bytes", _positive),
    "reduced_train_loss": ("loss", number),
    "grad_norm": ("grad_norm", number),
    _STEP_TIME: ("step_time_s", _positive),
    "TFLOPS_per_GPU": ("framework_tflops_per_gpu", _positive),
    "tokens_per_sec_per_gpu": ("tokens_per_s_per_gpu", _positive),
    "consumed_samples": ("consumed_samples", whole_number),
    "val_loss": ("val_loss", number),
}


_HEAD = rf"{_MARKER}\d+, iteration (\d+)/(\d+)"
_ITEM = r" \| KEY: VALUE"


class Nemo2Parser:
    """Reads one source; remembers what tells a whole line from a cut one."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        # What no line ends with: the loss, and each key that others followed on an earlier line.
        self._followed = {"reduced_train_loss", "global_step"}
        self._last_step = -1
        self._val_loss: float | None = None

    def quick(self, at: Place, out: Collector) -> int:
        """Reads the line at a marker if it is laid out as the lines before it; returns its end, or -1."""
        found = self._layout.read(at) if self._layout else None
        if found is None:
            return -1
        fields = found.fields
        step, step_time = fields["step"], fields["step_time_s"]
        if not isinstance(step, int) or not isinstance(step_time, float) or not 0 < step_time < math.inf:
            return -1
        self._remember(step, fields, out)
        done, batches = found.head
        out.last_of_all |= done == batches
        out.add(fields, found.prefix, at.offset + found.start, at.line)
        return found.end

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
        fields, keys, good = _read(parts, whole)
        last_key = keys[-1] if keys else ""
        step = fields.get("step")
        if not isinstance(step, int) or last_key == "global_step":
            out.problem("step lines not understood", line, _MARKER + piece)
            return
        if not good:
            out.problem("step lines read in part", line, _MARKER + piece)
        elif whole and {"consumed_samples", "step_time_s"} <= fields.keys():
            self._layout = Layout.of(_HEAD, keys, _FIELDS, _ITEM, LINE_END)
        # A process's first line is shorter than its others, so it may end as no other does.
        starts_again = step <= self._last_step and last_key == _STEP_TIME
        if last_key in self._followed and not starts_again:
            fields.pop(_FIELDS[last_key][0] if last_key in _FIELDS else "", None)
        if "step_time_s" not in fields:
            out.problem("step lines without a usable step time", line, _MARKER + piece)
        self._followed.update(keys[:-1])
        self._remember(step, fields, out)
        done, _, batches = head.partition("iteration ")[2].strip().partition("/")
        out.last_of_all |= done.isdigit() and done == batches.strip()
        out.add(fields, prefix, line.offset, line.line)

    def _remember(self, step: int, fields: Fields, out: Collector) -> None:
        self._last_step = step
        # The printer repeats the last validation's loss; a new value marks the step after a validation.
        val_loss = fields.get("val_loss")
        if isinstance(val_loss, float) and val_loss != self._val_loss:
            self._val_loss = val_loss
            out.validations[step - 1] = val_loss


def _read(parts: Sequence[str], whole: bool) -> tuple[Fields, list[str], bool]:
    """Returns the fields that can be trusted, all keys in order, and whether there was nothing to object to.

    Only a separator behind it proves that a number is whole; for the last one `whole` says it.
    """
    fields: Fields = {}
    keys: list[str] = []
    name = ""
    good = True
    for position, part in enumerate(parts):
        key, colon, text = part.partition(":")
        key = key.strip()
        if not colon or not key[:1].isalpha():
            # A separator inside a number: what stood before it is only its first part.
            fields.pop(name, None)
            good = False
            continue
        keys.append(key)
        known = _FIELDS.get(key)
        if known is None or (position == len(parts) - 1 and not whole):
            name = ""
            continue
        name, read = known
        value = read(text.strip())
        if value is None:
            good = False
        else:
            fields[name] = value
    return fields, keys, good


def _recognise(text: str) -> bool:
    return "iteration " in text and "|" in text and _MARKER in text


FORMAT = Format(
    name="nemo2",
    title="NeMo 2 (progress printer)",
    signs=(_MARKER.encode(),),
    # Without the space: a rarer last byte lets the search skip further.
    markers=(_MARKER.strip().encode(),),
    recognise=_recognise,
    new_parser=Nemo2Parser,
    example="Training epoch 0, iteration 3/99 | ... | global_step: 3 | ... | train_step_timing in s: 4.49",
)
