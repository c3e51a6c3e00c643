#!/usr/bin/env bash
# The whole way from raw conversations to a reply, with the commands that a user would type. `make demo` runs it in the
# project's environment. It can be interrupted and run again: what is finished stays, a training goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."

DATA=demo/data RUN=demo/run INDEX=demo/index
MODEL=$RUN/model

bold=""; plain=""
if [ -t 1 ]; then bold=$'\e[1m'; plain=$'\e[0m'; fi

headline() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
say() { printf '%s\n' "$*"; }

# Show a command as one would type it, then run it.
run() {
  printf '%s$%s' "$bold" "$plain"
  for word in "$@"; do
    if [[ $word =~ ^[A-Za-z0-9_./=:@%+-]+$ ]]; then printf ' %s' "$word"; else printf ' "%s"' "$word"; fi
  done
  printf '\n'
  "$@"
}

stopped() {
  code=$?
  [ "$code" -eq 0 ] && return
  if [ "$code" -eq 130 ]; then say "Interrupted. Nothing finished is lost: 'make demo' goes on from here." >&2
  else say "The demo stopped (exit code $code; the reason is above). 'make demo' goes on from here." >&2; fi
}
trap stopped EXIT
trap 'exit 130' INT

headline "1 of 5  Conversations: every turn with what precedes it is an example; whole dialogues are held out"
if [ -d "$DATA" ]; then say "$DATA is there already."
else run rejoinder data chitchat -o "$DATA"; fi

headline "2 of 5  Training: a small ConveRT from scratch, about four minutes on two cores"
run rejoinder train recipes/convert-small.toml -o "$RUN" --data "$DATA"

headline "3 of 5  Evaluation: which of 100 replies was the true one? On held-out dialogues, beside BM25"
run rejoinder evaluate bm25 "$MODEL" --data "$DATA" --candidates 100

headline "4 of 5  Index: ten thousand replies are encoded once"
if [ "$INDEX" -nt "$MODEL/model.safetensors" ]; then say "$INDEX is there already."
else
  again=(); [ -e "$INDEX" ] && again=(--overwrite)
  run rejoinder index "$MODEL" "$DATA" --limit 10000 -o "$INDEX" ${again[@]+"${again[@]}"}
fi

headline "5 of 5  Replies: the best ones for a message, or for a conversation (oldest message first)"
run rejoinder reply "$INDEX" "Hi! How are you doing today?"
run rejoinder reply "$INDEX" "What do you like to do in your free time?"
run rejoinder reply "$INDEX" "Do you have any pets?" "Yes, two cats. And you?"

headline "Done in $((SECONDS / 60)) min $((SECONDS % 60)) s. What to try next"
cat <<'NEXT'
  source .venv/bin/activate                             the command `rejoinder` in this shell
  rejoinder chat demo/index                             talk to it
  rejoinder reply demo/index "your message"             replies to anything; --json for programs
  rejoinder evaluate demo/run/model --data YOUR.jsonl   one line: {"context": ["Hi!"], "response": "Hello."}
  rejoinder index demo/run/model YOUR_REPLIES.txt -o my-index
  rejoinder --help                                      every verb; docs/guide.md tells the rest
To start the demo afresh, remove the folder demo.
NEXT
