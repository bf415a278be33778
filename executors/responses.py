"""A job's state in torchx's words."""

from __future__ import annotations

from torchx.schedulers.api import DescribeAppResponse
from torchx.specs import AppState, ReplicaStatus, Role, RoleStatus

from cloudai_run.executors.outcome import Outcome
from cloudai_run.executors.states import APP_STATES
from cloudai_run.executors.submission import Submission


def described(submission: Submission, now: Outcome) -> DescribeAppResponse:
    """What torchx's runner is told of a job."""
    state = AppState[APP_STATES[now.state]]
    replica = ReplicaStatus(id=0, role=submission.task, state=state, hostname="")
    return DescribeAppResponse(
        app_id=submission.job_id,
        roles=[Role(name=submission.task, num_replicas=1, image="")],
        roles_statuses=[RoleStatus(submission.task, [replica])],
        state=state,
        msg=now.text(),
    )
