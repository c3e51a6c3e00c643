# `make help` lists the verbs; each makes its own virtual environment when there is none.

PYTHON ?= python3
# Which build of torch: cpu, or default (on Linux that one brings several GB of CUDA packages).
TORCH ?= cpu
# More arguments for pytest, such as ARGS="-k subwords -x".
ARGS ?=

BIN := .venv/bin
ANY_PYTHON = $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
INSTALL = $(ANY_PYTHON) scripts/environment.py --torch $(TORCH)
OLD_PYTHON := Rejoinder needs Python 3.11 or newer; name one that is installed: make PYTHON=python3.12

export PIP_NO_INPUT := 1
export PYTHONUTF8 := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-stores test-nodes test-slow check docs image release bench lock clean python

IN_POSTGRES := $(addprefix tests/,curation/test_choices.py curation/test_editing.py curation/test_learning.py \
    curation/test_usage.py curation/test_erasure.py curation/test_feedback.py retrieval/test_changes.py \
    retrieval/test_where.py retrieval/test_messages.py retrieval/test_revisions.py serving/test_edits.py serving/test_feedback.py)

help:  ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r verb does; do \
	    printf 'make %-10s %s\n' "$$verb" "$$does"; done

demo: python  ## replies of the bundled model, then fine-tune it on real conversations and compare (about five minutes)
	@$(INSTALL) train baselines serve demo
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/demo.sh

test: python  ## run the tests; ARGS="-k name" chooses among them
	@$(INSTALL) dev train baselines bert languages ann milvus postgres serve onnx plots demo docs langchain haystack spacy mcp notebooks clients
	@$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow and not gpu and not nodes" $(ARGS)
	@[ -n "$(ARGS)" ] || $(BIN)/python -m pytest -n auto --dist loadfile -m "not slow and not gpu and not nodes" --store postgres $(IN_POSTGRES)

test-stores: python  ## run the tests of an index against PostgreSQL and milvus-lite too (an hour)
	@$(INSTALL) dev train baselines bert languages ann milvus postgres serve onnx plots demo mcp
	@for store in postgres milvus; do \
	    $(BIN)/python -m pytest -n auto --dist loadfile -m "not gpu and not nodes" --store $$store \
	    tests/retrieval tests/curation tests/serving tests/integrations || exit 1; done

test-slow: python  ## run the slow tests, and the property tests with new examples
	@$(INSTALL) dev train baselines encoders languages ann milvus postgres serve plots demo cluster onnx bench
	@HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -m "(slow or hypothesis) and not gpu and not nodes" $(ARGS)

test-nodes: python  ## run the tests of several nodes in network namespaces (root on Linux, 40 minutes)
	@$(INSTALL) dev train baselines postgres serve cluster
	@$(BIN)/python -m pytest -n 0 -m nodes tests/cluster $(ARGS)

check: python  ## lint (annotations, docstrings, complexity, prints) and type-check
	@$(INSTALL) dev serve postgres
	@echo "ruff" && $(BIN)/ruff check src tests scripts workshop $(wildcard benchmarks)
	@echo "mypy" && $(BIN)/mypy

docs: python  ## build the documentation site into build/docs; a warning is an error
	@$(INSTALL) docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "build/docs: $(BIN)/python -m http.server -d build/docs shows it at http://localhost:8000"

image:  ## build the image of deploy/Dockerfile without a daemon, start it and ask it (root, buildah, mmdebstrap)
	@bash scripts/image.sh

release: python  ## build wheels, sdist and SBOM into dist, and try the wheel in an empty environment
	@PYTHON="$(ANY_PYTHON)" bash scripts/release.sh

bench: python  ## run every benchmark beside its peers; figures go to benchmarks/results
	@$(INSTALL) bench train baselines languages ann milvus postgres serve demo
	@failed=""; for script in $$(grep -l '^if __name__ == "__main__"' benchmarks/*.py); do \
	    printf '\n%s\n' "$$script"; $(BIN)/python "$$script" || failed="$$failed $$script"; done; \
	if [ -n "$$failed" ]; then echo "Failed:$$failed" >&2; exit 1; fi

lock: python  ## write constraints.txt from an environment with every extra
	@$(INSTALL) dev train baselines encoders languages bert ann milvus postgres serve onnx plots demo bench cluster docs langchain haystack spacy mcp notebooks clients
	@$(BIN)/python -m uv pip freeze --exclude-editable --exclude pip >constraints.new
	@{ grep '^#' constraints.txt; sed 's/+.*//' constraints.new; } >constraints.all
	@mv constraints.all constraints.txt && rm constraints.new

clean:  ## remove the environment, caches and build output (demo and runs stay)
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	@find src tests scripts workshop $(wildcard benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@command -v $(ANY_PYTHON) >/dev/null || { echo "There is no $(ANY_PYTHON). $(OLD_PYTHON)" >&2; exit 1; }
	@$(ANY_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(OLD_PYTHON)" >&2; exit 1; }
