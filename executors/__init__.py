"""Where and how to run: plans, the renderer that turns a plan into a script, and the executors."""
