#!/usr/bin/env bash
# From the weights that come with the package to replies, and from raw conversations to a model of one's own, with the
# commands that a user would type. `make demo` runs it in the project's environment. It can be interrupted and run again:
# what is finished stays, a training goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."

WEIGHTS=bi-small CONFIG=src/rejoinder/weights/bi-small/config.json
DATA=demo/data SHIPPED=demo/index TUNED=demo/tuned SCRATCH=demo/scratch INDEX=demo/tuned-index

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

# An index of ten thousand replies, unless it is there and newer than config.json of the model, which has the digests of its other files.
index() {
  local model=$1 config=$2 folder=$3 again=()
  if [ "$folder" -nt "$config" ] && [ "$folder" -nt "$DATA" ]; then say "$folder is there already."; return; fi
  if [ -e "$folder" ]; then again=(--overwrite); fi
  run rejoinder index build "$model" "$DATA" --limit 10000 -o "$folder" ${again[@]+"${again[@]}"}
}

replies() {
  run rejoinder reply "$1" "Hi! How are you doing today?"
  run rejoinder reply "$1" "What do you like to do in your free time?"
  run rejoinder reply "$1" "Do you have any pets?" "Yes, two cats. And you?"
}

stopped() {
  code=$?
  [ "$code" -eq 0 ] && return
  if [ "$code" -eq 130 ]; then say "Interrupted. Nothing finished is lost: 'make demo' goes on from here." >&2
  else say "The demo stopped (exit code $code; the reason is above). 'make demo' goes on from here." >&2; fi
}
trap stopped EXIT
trap 'exit 130' INT

headline "1 of 5  The weights that come with the package"
run rejoinder list models "$WEIGHTS" # exit code 2 where this clone has none
mkdir -p demo
printf '%s\n' 'question,answer' 'I lost my card,We will send another card.' 'my card was stolen,We will send another card.' \
  'When do you open?,We open at nine.' 'Are you open on Sundays?,We open at nine.' > demo/faq.csv
run rejoinder index build "$WEIGHTS" demo/faq.csv -o demo/faq --overwrite
run rejoinder reply demo/faq "somebody took my card" -k 1
say "An FAQ answers after $SECONDS s. Its page, in another terminal: .venv/bin/rejoinder serve demo/faq"

# Processors without bfloat16 compute half as fast: shorter trainings and fewer examples keep to five minutes. The
# layers read all messages once, so that a quarter of the conversations, as many as the steps see, saves most.
FEWER=()
if rejoinder doctor --json | grep -q '"bfloat16": true'; then
  STEPS=100 FIRST=1.2 SECOND=0.3 RANKED=5000
else
  STEPS=40 FIRST=0.5 SECOND=0.2 RANKED=1500 FEWER=(--limit 30000)
  say "This processor has no bfloat16: the demo trains for a shorter time."
fi
if [ -d "$DATA" ]; then say "$DATA is there already."
else run rejoinder data chitchat -o "$DATA" ${FEWER[@]+"${FEWER[@]}"}; fi # whole dialogues are held out, the same as when the weights were made
index "$WEIGHTS" "$CONFIG" "$SHIPPED"
replies "$SHIPPED"
say "(${SECONDS} s so far)"

headline "2 of 5  Fine-tuning them on these conversations, a minute or two"
if [ -e "$TUNED" ] && [ "$CONFIG" -nt "$TUNED/recipe.toml" ]; then
  say "$TUNED started from another edition of the weights: it is trained anew."
  run rm -r "$TUNED"
fi
run rejoinder train recipes/fine-tune-heads.toml --init "$WEIGHTS" --data "$DATA" -o "$TUNED" \
  --set stage.0.steps="$STEPS"

headline "3 of 5  To compare with: a model from scratch, a minute or a minute and a half"
run rejoinder train recipes/convert-quick.toml --data "$DATA" -o "$SCRATCH" \
  --set stage.0.minutes="$FIRST" --set stage.1.minutes="$SECOND" --set validation.every_seconds=30.0

headline "4 of 5  Which of 100 replies was the true one? On dialogues that no model has seen"
run rejoinder evaluate bm25 "$SCRATCH/model" "$WEIGHTS" "$TUNED/model" --data "$DATA" --candidates 100 --sample "$RANKED" \
  --above bm25 --above "$SCRATCH/model"

headline "5 of 5  Replies of the fine-tuned model"
index "$TUNED/model" "$TUNED/model/config.json" "$INDEX"
replies "$INDEX"

headline "Done in $((SECONDS / 60)) min $((SECONDS % 60)) s. What to try next"
cat <<'NEXT'
  source .venv/bin/activate                             the command `rejoinder` in this shell
  rejoinder chat demo/tuned-index                       talk to it
  rejoinder serve demo/tuned-index                      the same over HTTP, and a page: http://localhost:8000/
  rejoinder reply demo/index "your message"             replies to anything; --json for programs
  rejoinder evaluate bi-small --data YOUR.jsonl         one line: {"context": ["Hi!"], "response": "Hello."}
  rejoinder index build bi-small YOUR_REPLIES.txt -o my-index
  rejoinder --help                                      every verb; docs/guide.md tells the rest
To start the demo afresh, remove the folder demo.
NEXT
