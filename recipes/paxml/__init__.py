"""PAXML workloads (GPT, Grok, Nemotron) as script-task recipes."""
