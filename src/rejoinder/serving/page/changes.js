// The history of changes: what was changed when, and how to undo it.

import { ask } from "./api.js";
import { byId, button, element } from "./dom.js";

const STEP = 10; // changes that are shown, and more at a time
const MOST = 1000;
const REPLIES = 3; // of a change that are described
const VERBS = { add: "added", edit: "edited", retire: "deleted", merge: "merged", move: "example moved", undo: "reverted" };
let attempt = (work) => work();
let changed = () => {};
let limit = STEP;
let mayWrite = true;

export function startChanges(onAttempt, onChange) {
  attempt = onAttempt;
  changed = onChange;
}

// List the latest changes, which hold customers' words: without the write key there are none to see.
export async function openChanges(isWritable) {
  mayWrite = isWritable;
  const { changes } = mayWrite ? await ask(`v1/edits?limit=${limit}`) : { changes: [] };
  byId("changes-status").hidden = changes.length > 0;
  byId("change-list").replaceChildren(...changes.map(changeItem));
  byId("older").hidden = changes.length < limit || limit >= MOST;
}

function changeItem(change) {
  const item = element("li");
  const text = element("div", "text");
  const when = element("time", "number", new Date(1000 * change.time).toLocaleString());
  when.dateTime = new Date(1000 * change.time).toISOString();
  const lines = change.replies.slice(0, REPLIES).flatMap(describe);
  const left = change.replies.length - REPLIES;
  if (left > 0) lines.push(`and ${left} more`);
  text.append(element("strong", "", `${change.change}: ${VERBS[change.kind] ?? change.kind} `), when);
  text.append(...lines.map((line) => element("p", "", line)));
  item.append(text);
  if (change.undone) item.append(element("span", "number", "undone"));
  else item.append(button("Undo", `Undo change ${change.change}`, () => attempt(() => undo(change.change))));
  return item;
}

async function undo(number) {
  await ask("v1/edits", { undo: number });
  await changed(`Change ${number} is undone.`, null);
  byId("changes-title").focus();
}

// Return lines on what has become of a reply.
function describe({ position, before, after }) {
  const { title, text } = after ?? before;
  const lines = [`#${position} ${title || text}`];
  if (!before || !after) return lines;
  if (before.title !== after.title) lines.push(`title was: ${before.title || "none"}`);
  if (before.text !== after.text) lines.push(`text was: ${before.text}`);
  const [old, now] = [before, after].map((reply) => [...(reply.examples ?? []), ...(reply.learned ?? [])]
    .map((example) => example.join(" ⏎ ")));
  lines.push(...now.filter((example) => !old.includes(example)).map((example) => `+ ${example}`));
  lines.push(...old.filter((example) => !now.includes(example)).map((example) => `− ${example}`));
  return lines;
}

byId("older").addEventListener("click", () => {
  limit = Math.min(MOST, limit + STEP);
  attempt(() => openChanges(mayWrite));
});
