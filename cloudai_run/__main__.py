"""`python -m cloudai_run` is the same as `cloudai-run`."""

from cloudai_run.cli.main import main

if __name__ == "__main__":
    main()
