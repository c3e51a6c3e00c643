#!/usr/bin/env bash
# Checks a card: tests with the mark gpu, then training, scoring and encoding beside sentence-transformers.
#   bash scripts/gpu_check.sh DATA START [OUT]
# DATA is a folder of examples, START a folder of sentence-transformers, with weights or without (random ones are
# made then). Needs a Python with PyTorch for CUDA, pytest-xdist, and what rejoinder needs; rejoinder itself need not be
# installed. Nothing else may run on the machine. Takes a few minutes, eight at most; figures are printed, and written to
# benchmarks/results/gpu.json.
set -euo pipefail
data=$(realpath "$1")
start=$(realpath "$2")
cd "$(dirname "$0")/.."
export PYTHONPATH="src:benchmarks:.${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
status=0
timeout 240 "$python" -m pytest tests/gpu -m gpu -q -n 8 -p no:cacheprovider --durations=5 || status=$?
timeout 240 "$python" benchmarks/gpu.py --data "$data" --start "$start"
exit "$status"
