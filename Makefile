# Two commands do all the set-up: `make run` runs the main job, `make test` passes the tests.
# Paths are relative, so that the folder's own name may hold spaces.
PYTHON ?= python3
VENV := .venv
PAXML_VENV := .venv-paxml
SYSTEM := ./tests/system-packages.sh
export CLOUDAI_RUN_PAXML_PYTHON ?= $(PAXML_VENV)/bin/python

.PHONY: run test lint unit slurm-lab paxml-env clean help
help:
	@echo 'make run        set up .venv with real NeMo for the CPU and train llama3_8b (shrunk) for five steps'
	@echo 'make test       set up everything the tests need and run them all'
	@echo 'make lint       ruff, ruff format, pyright'
	@echo 'make slurm-lab  start a real Slurm cluster of four nodes on this machine (as root)'
	@echo 'make paxml-env  set up .venv-paxml with real PAXML for the CPU'

run: $(VENV)/smoke.done
	$(VENV)/bin/python -m cloudai_run pretrain --factory llama3_8b --smoke trainer.max_steps=5

test: $(VENV)/test.done $(PAXML_VENV)/done
	$(SYSTEM)
	$(MAKE) --no-print-directory lint
	$(VENV)/bin/python -m pytest

lint: $(VENV)/test.done
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m pyright --pythonpath $(VENV)/bin/python

$(VENV)/smoke.done: pyproject.toml
	@echo '==> .venv with NeMo 2.7.3 for the CPU: about 3 minutes and 3 GB where a CPU build of torch is found,'
	@echo '    longer where pip brings the CUDA build of torch (several GB more)'
	./tools/make-venv.sh "$(PYTHON)" $(VENV) '.[smoke]'
	@touch $@

$(VENV)/test.done: pyproject.toml $(VENV)/smoke.done
	@echo '==> .venv with what the tests need: about 1 minute'
	./tools/make-venv.sh "$(PYTHON)" $(VENV) '.[smoke,test,plot,tensorboard,mlflow,wandb]'
	@touch $@

$(PAXML_VENV)/done: tests/paxml/requirements.txt
	@echo '==> .venv-paxml with PAXML 1.4.0 for the CPU: about 2 minutes and 3 GB'
	./tests/paxml/make-env.sh "$(PYTHON)" $(PAXML_VENV)
	@touch $@

paxml-env: $(PAXML_VENV)/done

slurm-lab:
	./tests/slurm/cluster.sh install
	./tests/slurm/cluster.sh start 4

clean:
	rm -rf $(VENV) $(PAXML_VENV) build dist *.egg-info
