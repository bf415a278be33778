"""placeholder"""


def create_scheduler(session_name, **kw):
    raise NotImplementedError
