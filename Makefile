# The verbs of a newcomer. Each is one command that can be typed by hand as well.
.PHONY: help lab test test-all bench bench-fleet down

help: ## Print this list
	@sed -n 's/^\([a-z-]*\): ## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

lab: ## Make a Slurm cluster with simulated GPUs, of four containers on this machine
	scripts/lab.sh up

test: ## Run the gates, the unit and integration tests, and make a cluster from nothing
	.ci/run test

test-all: ## Run everything else as well that tests/proved.json does not have; PARTS="nfs login" runs these
	.ci/run $(or $(PARTS),all)

bench: ## Measure site.yml on the lab against the budgets
	.venv/bin/python tests/benchmark/render_slurm.py
	.venv/bin/python tests/benchmark/azure_inventory.py
	.venv/bin/python tests/benchmark/site.py --fresh

bench-fleet: ## Measure what site.yml costs the control node for many nodes
	.venv/bin/python tests/benchmark/fleet.py

down: ## Remove the lab
	scripts/lab.sh down
