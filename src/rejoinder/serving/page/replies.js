// The tab Replies: a list to search, its editor, its files, and the history of changes.

import { ask } from "./api.js";
import { openChanges, startChanges } from "./changes.js";
import { byId, button, element } from "./dom.js";
import { editNew, editReply, startEditor } from "./editor.js";
import { startFiles } from "./files.js";
import { showProblem } from "./problem.js";

const SHOWN = 20; // replies of a page of the list
const PAUSE = 250; // milliseconds without a key before a search
const ANY_SCORE = -1e9;
const words = byId("search-words");
let first = 0; // position from which the list goes
let mayWrite = true;
let timer = 0;
let pending = null; // of the list that is under way

export async function openReplies(about, position) {
  mayWrite = about.may_write;
  await list();
  if (/^\d+$/.test(position)) await editReply(Number(position), mayWrite);
}

async function list() {
  clearTimeout(timer);
  pending?.abort();
  const mine = (pending = new AbortController());
  byId("edit-list").ariaBusy = "true";
  const [{ replies, next }] = await Promise.all([find(words.value.trim(), mine.signal), openChanges(mayWrite)]);
  if (mine.signal.aborted) return;
  byId("edit-list").ariaBusy = "false";
  byId("edit-list").replaceChildren(...replies.map(row));
  if (!replies.length) byId("edit-list").replaceChildren(element("li", "none", "No reply."));
  byId("edit-next").hidden = next === null;
  byId("edit-next").value = next ?? "";
  byId("edit-begin").hidden = words.value.trim() !== "" || first === 0;
}

// Return replies by number, by meaning, or in order.
async function find(query, signal) {
  const number = /^#(\d{1,15})$/.exec(query);
  if (query && !number) {
    const wanted = { messages: [query], k: SHOWN, minimum_score: ANY_SCORE, distinct: false };
    const { replies } = await ask("v1/replies", wanted, signal);
    return { replies, next: null };
  }
  const from = number ? Number(number[1]) : first;
  const { candidates, next } = await ask(`v1/candidates?first=${from}&limit=${SHOWN}`, undefined, signal);
  return { replies: candidates, next: number ? null : next };
}

function row(reply) {
  const item = element("li");
  const text = element("div", "text");
  if (reply.title) text.append(element("strong", "", reply.title));
  text.append(element("p", "", reply.text));
  const count = reply.examples?.length ?? 0;
  if (count) text.append(element("p", "help", `${count} ${count === 1 ? "example" : "examples"}`));
  const verb = mayWrite ? "Edit" : "Look at";
  const open = button(mayWrite ? "Edit" : "Look", `${verb} reply ${reply.position}`, () =>
    attempt(() => editReply(reply.position, mayWrite)));
  open.dataset.position = reply.position;
  item.append(element("span", "number", `#${reply.position}`), text, open);
  return item;
}

function report(text) {
  byId("edit-status").textContent = text;
}

// Show the list as it is after a change, and where the keyboard was before it.
async function changed(text, position) {
  await list();
  report(text);
  window.dispatchEvent(new Event("changed"));
  const row = byId("edit-list").querySelector(`[data-position="${position}"]`);
  (row ?? words).focus();
}

async function attempt(work) {
  try {
    await work();
    showProblem(null);
  } catch (error) {
    if (error.name === "AbortError") return;
    report(error.message);
    showProblem(error);
  }
}

function from(position) {
  first = position;
  words.value = "";
  attempt(list);
}

words.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => attempt(list), PAUSE);
});
byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(list);
});
byId("edit-next").addEventListener("click", () => from(Number(byId("edit-next").value)));
byId("edit-begin").addEventListener("click", () => from(0));
byId("add-reply").addEventListener("click", editNew);
byId("editor").addEventListener("close", () => { // the address names a reply no longer
  if (location.hash.startsWith("#replies/")) history.replaceState(null, "", "#replies");
});
startEditor(changed);
startChanges(attempt, changed);
startFiles(attempt, changed, report);
