# The verbs of a newcomer. Each is one command that can be typed by hand as well.
.PHONY: lab test bench down

lab: ## Make a Slurm cluster of three containers on this machine
	scripts/lab.sh up

test: ## Run every gate and test
	.ci/run

bench: ## Measure site.yml on the lab against the budgets
	.venv/bin/python tests/benchmark/render_slurm.py
	.venv/bin/python tests/benchmark/azure_inventory.py
	.venv/bin/python tests/benchmark/site.py --fresh

down: ## Remove the lab
	scripts/lab.sh down
