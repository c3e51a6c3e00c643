// Editing: a list of replies, a dialog for one of them, the changes that can be undone, files, and the report on use.

import { ask } from "./api.js";

const SHOWN = 20; // replies of a page of the list
const $ = (id) => document.getElementById(id);
let report = () => {}; // tells an error, or that there is none
let changed = () => {}; // is called after a change
let first = 0; // position from which the list goes
let open = null; // the reply in the dialog; null: a new one
let examples = []; // of that reply, each a list of messages

export function startEditing(onError, onChange) {
  report = onError;
  changed = onChange;
}

async function attempt(work) {
  try {
    await work();
    report(null);
    return true;
  } catch (error) {
    tell(error.message);
    report(error);
    return false;
  }
}

function tell(text) {
  $("edit-status").textContent = text;
  $("dialog-status").textContent = text;
}

function made(name, text = "", className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function button(text, label, act) {
  const element = made("button", text);
  element.type = "button";
  if (label) element.setAttribute("aria-label", label);
  element.addEventListener("click", act);
  return element;
}

// --- The list --------------------------------------------------------------------------------------------------------

async function list() {
  const words = $("edit-search").value.trim();
  let replies, next = null;
  if (words) {
    const wanted = { messages: [words], k: SHOWN, minimum_score: -1e9 };
    replies = (await ask("v1/replies", wanted)).replies;
  } else {
    const page = await ask(`v1/candidates?first=${first}&limit=${SHOWN}`);
    replies = page.candidates;
    next = page.next;
  }
  $("edit-list").replaceChildren(...replies.map((reply) => {
    const item = made("li");
    item.append(made("span", `#${reply.position} `, "number"), made("span", reply.title || reply.text, "text"));
    item.append(button("Edit", `Edit reply ${reply.position}`, () => attempt(() => edit(reply.position))));
    return item;
  }));
  if (!replies.length) $("edit-list").replaceChildren(made("li", "No reply.", "none"));
  $("edit-next").hidden = next === null;
  $("edit-next").value = next ?? "";
  $("edit-begin").hidden = words !== "" || first === 0;
  await listChanges();
}

async function listChanges() {
  let changes = [];
  try {
    ({ changes } = await ask("v1/edits?limit=10"));
  } catch (error) { // a read key sees replies, but not what customers wrote
    if (error.status !== 403) throw error;
  }
  $("change-list").replaceChildren(...changes.map((change) => {
    const positions = change.replies.map((reply) => `#${reply.position}`).slice(0, 5).join(", ");
    const item = made("li", `${change.change}: ${change.kind} ${positions}`);
    if (change.undone) item.append(made("span", " undone", "number"));
    else item.append(button("Undo", `Undo change ${change.change}`, () => attempt(async () => {
      await send({ undo: change.change }, `Change ${change.change} is undone.`);
    })));
    return item;
  }));
}

async function send(body, text) {
  await ask("v1/edits", body);
  await after(text);
}

async function after(text) {
  await list();
  tell(text);
  changed();
}

// --- The dialog ------------------------------------------------------------------------------------------------------

async function edit(position) {
  const { candidates: [reply] } = await ask(`v1/candidates?first=${position}&limit=1`);
  if (reply?.position !== position) throw new Error(`Reply ${position} is gone.`);
  show(reply);
}

function show(reply) {
  open = reply;
  examples = (reply?.examples ?? []).map((example) => [...example]);
  $("dialog-title").textContent = reply ? `Reply ${reply.position}` : "A new reply";
  $("reply-text").value = reply?.text ?? "";
  $("reply-title").value = reply?.title ?? "";
  $("new-example").value = "";
  $("merge-with").value = "";
  $("existing").hidden = !reply;
  tell("");
  showExamples();
  $("editor").showModal();
  $("reply-text").focus();
}

function showExamples() {
  $("example-list").replaceChildren(...examples.map((example, place) => {
    const item = made("li");
    const text = example.join(" ⏎ ");
    item.append(made("span", text, "text"), button("Remove", `Remove the example ${text}`, () => {
      examples.splice(place, 1);
      showExamples();
      $("new-example").focus();
    }));
    if (open?.examples.some((each) => each.join("\0") === example.join("\0"))) {
      item.append(button("Move to…", `Move the example ${text} to another reply`, () => move(example)));
    }
    return item;
  }));
}

function addExample() {
  const text = $("new-example").value.trim();
  if (!text) return;
  examples.push([text]);
  $("new-example").value = "";
  showExamples();
}

function wanted(input) {
  const position = Number(input.value);
  if (!input.value || !Number.isInteger(position) || position < 0) throw new Error("Write the number of another reply first.");
  return position;
}

async function done(work) {
  if (await attempt(work)) $("editor").close();
}

function save() {
  addExample();
  const text = $("reply-text").value, title = $("reply-title").value;
  return done(async () => {
    if (open) await send({ replace: { position: open.position, text, title, examples } }, `Reply ${open.position} is saved.`);
    else {
      const { positions: [position] } = await ask("v1/candidates", { candidates: [{ text, title, examples }] });
      await after(`Reply ${position} is added.`);
    }
  });
}

function retire() {
  const { position } = open;
  return done(async () => {
    await ask(`v1/candidates/${position}`, undefined, undefined, "DELETE");
    await after(`Reply ${position} is retired.`);
  });
}

function merge() {
  const { position } = open;
  return done(() => send({ merge: { position: wanted($("merge-with")), other: position } }, `Reply ${position} is merged.`));
}

function move(example) {
  const { position } = open;
  return done(() => send({ move: { example, position, to: wanted($("merge-with")) } }, "The example is moved."));
}

// --- Files and the report --------------------------------------------------------------------------------------------

async function importFile() {
  const [file] = $("import").files;
  if (!file) return;
  await attempt(async () => {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let start = 0; start < bytes.length; start += 32768) text += String.fromCharCode(...bytes.subarray(start, start + 32768));
    const { positions, known, notes } = await ask("v1/import", { name: file.name, content: btoa(text) });
    await after([`${positions.length} replies are added, ${known} were there.`, ...notes].join(" "));
  });
  $("import").value = "";
}

async function exportFile() {
  await attempt(async () => {
    const lines = [];
    for (let next = 0; next !== null;) {
      const page = await ask(`v1/candidates?first=${next}&limit=1000`);
      for (const { text, title, examples: own, payload } of page.candidates) {
        lines.push(JSON.stringify({ ...payload, text, title, examples: own }));
      }
      next = page.next;
    }
    const link = made("a");
    link.href = URL.createObjectURL(new Blob([lines.map((line) => `${line}\n`).join("")], { type: "application/jsonl" }));
    link.download = "replies.jsonl";
    link.click();
    URL.revokeObjectURL(link.href);
    tell(`${lines.length} replies are written.`);
  });
}

async function showReport() {
  await attempt(async () => {
    const page = new DOMParser().parseFromString(await ask("v1/report?form=html"), "text/html");
    $("report").replaceChildren(...page.querySelectorAll("article"));
  });
}

$("edit").addEventListener("toggle", () => { if ($("edit").open) attempt(list); });
$("edit-search").addEventListener("change", () => attempt(list));
$("edit-next").addEventListener("click", () => {
  first = Number($("edit-next").value);
  attempt(list);
});
$("edit-begin").addEventListener("click", () => {
  first = 0;
  attempt(list);
});
$("add-reply").addEventListener("click", () => show(null));
$("export").addEventListener("click", exportFile);
$("import").addEventListener("change", importFile);
$("use").addEventListener("toggle", () => { if ($("use").open) showReport(); });
$("editor-form").addEventListener("submit", (event) => {
  event.preventDefault();
  save();
});
$("new-example").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.isComposing) {
    event.preventDefault();
    addExample();
  }
});
$("add-example").addEventListener("click", addExample);
$("close").addEventListener("click", () => $("editor").close());
$("retire").addEventListener("click", retire);
$("merge").addEventListener("click", merge);
