"""From the logs of a run to numbers: parsers, statistics, model FLOPs, comparison and reports.

The way of the data, each arrow a pure function on the frozen records of `samples`:

    parse.parse_run(run_dir) -> {stage: ParsedLog}, parse.parse_files(paths) -> ParsedLog, "-" is stdin
    window.steady_window(log, override="10:50", profiled=(first, last)) -> Window
    statistics.describe(values, steps=numbers) -> Statistics
    ranks.rank_spread(log, window) -> RankSpread | None
    validity.judge(log, window, max_steps=, exit_code=, expect_falling_loss=) -> Validity
"""
