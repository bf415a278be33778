"""A container whose jaxlib is another than the recipe names: the run's failure is explained by versions."""

from __future__ import annotations

from cloudai_run.metrics.explain import explained
from cloudai_run.metrics.samples import Failure, ParsedLog

LINE = "F0 parse_flags_from_env.cc:225] Unknown flags in XLA_FLAGS: --xla_gpu_graph_level=0"
FAILURE = Failure("xla_unknown_flag", LINE, "general advice", "rank-0.log", 4)


def log_with(*failures: Failure) -> ParsedLog:
    return ParsedLog(format="paxml", stage="perf", sources=("rank-0.log",), failures=failures)


def test_the_jaxlib_that_the_recipe_names_is_held_against_the_one_that_ran():
    (failure,) = explained(log_with(FAILURE), {"workload": {"jaxlib": "0.4.31"}}).failures
    assert failure.advice == (
        "the container's jaxlib does not know xla_gpu_graph_level, which jaxlib 0.4.31 does: the container has "
        "another version than workload.jaxlib says\n"
        "  it is 0.7.2 or later by that; name it in workload.jaxlib, and the login node says what to set"
    )


def test_without_a_named_jaxlib_the_range_is_said():
    (failure,) = explained(log_with(FAILURE), None).failures
    assert failure.advice.startswith(
        "the container's jaxlib does not know xla_gpu_graph_level\n  it is 0.7.2 or later"
    )


def test_other_failures_keep_their_advice():
    other = Failure("cuda_out_of_memory", "CUDA out of memory", "use a smaller batch", "rank-0.log", 9)
    assert explained(log_with(other), None).failures == (other,)
