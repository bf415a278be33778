"""Finds the run folder of a job by the id that NeMo-Run knows it by."""

from __future__ import annotations

from nemo_run.config import get_nemorun_home
from nemo_run.run import experiment as nemo_run_experiment

from cloudai_run.executors.submission import Submission, find_in_index, read_submission

Experiment = nemo_run_experiment.Experiment


def find_submission(app_id: str, experiment: Experiment | None) -> Submission | None:
    """The record of a job: of the experiment at hand, as two clusters may use the same id, or else by the index.

    Args:
        app_id: torchx's, which is Slurm's job id for a job of Slurm's.
        experiment: None for NeMo-Run's current one, if there is one.
    """
    experiment = experiment or nemo_run_experiment._current_experiment.get(None)
    run_dir = None
    for job in experiment.jobs if experiment else ():
        if isinstance(job, nemo_run_experiment.Job) and job.handle.endswith(f"/{app_id}"):
            run_dir = job.executor.job_dir
    run_dir = run_dir or find_in_index(get_nemorun_home(), app_id)
    return read_submission(run_dir) if run_dir else None
