#!/usr/bin/env bash
# Build what a release uploads into dist/: wheel and sdist of the project, the wheels of weights/*, and an SBOM
# (CycloneDX) of the versions that the wheel was tried with. The wheel is installed without PyTorch into an empty
# environment outside the clone, and answers the commands of the README's FAQ there. Needs python3 and a package index.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3} MOST_MB=45
clone=$PWD
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' src/rejoinder/__init__.py)
wheel=dist/rejoinder-$version-py3-none-any.whl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "$*" >&2; exit 1; }

if [ -e dist ]; then rm -r dist; fi
"$PYTHON" -m venv "$work/tools"
PATH=$work/tools/bin:$PATH
python -m pip install --quiet --disable-pip-version-check uv
uv pip install --quiet --python "$work/tools" build cyclonedx-bom twine

build() { python -m build --installer uv --outdir dist "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }
build .
for package in weights/*/; do build --wheel "$package"; done
twine check --strict dist/*

for file in dist/*; do
  [ "$(wc -c <"$file")" -le $((100 << 20)) ] || fail "$file has more than 100 MiB, the limit of PyPI."
done
megabytes=$(($(wc -c <"$wheel") / 1000000))
[ "$megabytes" -lt "$MOST_MB" ] || fail "$wheel has $megabytes MB; a release has less than $MOST_MB."
contents=$(python -m zipfile --list "$wheel")
for model in bi-small convert-small; do
  for part in config.json model.safetensors vocabulary.json onnx.json trunk.onnx context.onnx response.onnx; do
    grep -q "rejoinder/weights/$model/$part " <<<"$contents" || fail "$wheel lacks weights/$model/$part."
  done
done

# As docs/get-started.md installs for replies, bots and desks, in the pinned versions.
uv venv --quiet --python "$(command -v python)" "$work/empty"
uv pip install --quiet --python "$work/empty" --constraint constraints.txt "$wheel[serve]"
sed "s/^dynamic = .*/version = \"$version\"/" pyproject.toml >"$work/pyproject.toml"
cyclonedx-py environment --pyproject "$work/pyproject.toml" --mc-type library --output-reproducible \
  -o "dist/rejoinder-$version.cdx.json" "$work/empty"

mapfile -t commands < <(grep -m 2 '^rejoinder ' README.md)
mkdir "$work/faq"
cat >"$work/faq/faq.csv" <<'FAQ'
question,answer
I lost my card,We will send another card.
someone has my card,We will send another card.
When do you open?,We open at nine.
Where is my order?,Your order is on its way.
FAQ
cd "$work/faq"
for command in "${commands[@]}"; do
  echo "\$ $command"
  env -u PYTHONPATH PATH="$work/empty/bin:$PATH" bash -c "$command" | tee answer.txt
done
case $(head -n 1 answer.txt) in
  *"We will send another card.") ;;
  *) fail "The wheel gave another answer to the README's question." ;;
esac
cd "$clone"
ls -l dist
