#!/usr/bin/env bash
# Build the image of deploy/Dockerfile, start it over an index of three replies and ask it, without a Docker daemon:
# buildah in a chroot, over a base of Debian that mmdebstrap makes. Needs root, buildah and mmdebstrap
# (apt-get install buildah mmdebstrap). Prints the size of the image; it stays in buildah's store as localhost/rejoinder.
set -euo pipefail
cd "$(dirname "$0")/.."

MIRROR=${MIRROR:-http://deb.debian.org/debian} SUITE=${SUITE:-bookworm} PORT=${PORT:-8791} IMAGE=rejoinder
MOST_MB=350
export BUILDAH_ISOLATION=chroot

for tool in buildah mmdebstrap; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install buildah mmdebstrap" >&2; exit 1; }
done
work=$(mktemp -d)
container="" server=""
finish() {
  # the server itself: buildah would leave it running
  if [ -s "$work/data/server.pid" ]; then kill "$(cat "$work/data/server.pid")" 2>/dev/null || true; fi
  if [ -n "$server" ]; then wait "$server" 2>/dev/null || true; fi
  if [ -n "$container" ]; then buildah rm "$container" >/dev/null; fi
  rm -rf "$work"
}
trap finish EXIT

if ! buildah inspect localhost/rejoinder-debian >/dev/null 2>&1; then
  # usrmerge has moved all files by now; the 52 MB of Perl that it needs go with it
  mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates \
    --aptopt='Acquire::Languages "none"' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='chroot "$1" apt-get install --yes --quiet usr-is-merged >/dev/null' \
    --customize-hook='chroot "$1" dpkg-query --show --showformat "\${Package}\n" | grep -xE "usrmerge|perl|perl-modules.*|lib.*perl.*" |
      xargs chroot "$1" apt-get purge --yes --quiet --auto-remove >/dev/null' \
    "$SUITE" "$work/base.tar" "$MIRROR"
  base=$(buildah from scratch)
  buildah add -q "$base" "$work/base.tar" / >/dev/null
  buildah run "$base" -- apt-get clean
  buildah commit -q --squash --rm "$base" localhost/rejoinder-debian >/dev/null
fi

# The certificates and pip's settings of this machine hold while the image is built, and do not enter it.
settings=()
for path in /etc/ssl/certs /etc/pip.conf /etc/xdg/pip; do
  if [ -e "$path" ]; then settings+=(--volume "$path:$path:ro"); fi
done
buildah build -q --layers --format docker --build-arg BASE=localhost/rejoinder-debian "${settings[@]}" \
  -f deploy/Dockerfile -t "$IMAGE" . >/dev/null

container=$(buildah from "$IMAGE")
mount=$(buildah mount "$container")
megabytes=$(du -s --apparent-size --block-size=1000000 "$mount" | cut -f1)
mkdir -p "$work/data"
printf 'Let me look that up.\nWe open at nine.\nYes, two cats!\n' > "$work/data/replies.txt"
chown -R 10001:10001 "$work/data"
chmod 755 "$work"
inside=(buildah run --volume "$work/data:/data" "$container" --)
"${inside[@]}" rejoinder --help >/dev/null
"${inside[@]}" rejoinder index build bi-small /data/replies.txt -o /data/index
"${inside[@]}" rejoinder reply /data/index "Do you have any pets?"
"${inside[@]}" sh -c 'echo $$ > /data/server.pid; exec rejoinder serve /data/index --port "$0"' "$PORT" 2>"$work/serve.log" &
server=$!
for _ in $(seq 60); do
  if curl -fs "http://127.0.0.1:$PORT/ready" >/dev/null; then break; fi
  sleep 1
done
answer=$(curl -fs "http://127.0.0.1:$PORT/v1/replies" -H "Content-Type: application/json" \
  -d '{"messages": ["Hi!", "Do you have any pets?"], "k": 1}') || { cat "$work/serve.log" >&2; exit 1; }
echo "$answer"
case $answer in *"Yes, two cats!"*) ;; *) echo "The image gave another answer." >&2; exit 1 ;; esac
echo "localhost/$IMAGE: $megabytes MB"
if [ "$megabytes" -ge "$MOST_MB" ]; then echo "More than $MOST_MB MB." >&2; exit 1; fi
