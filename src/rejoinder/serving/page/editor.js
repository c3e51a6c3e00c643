// The editor: a dialog for one reply, its title and its examples.

import { ask } from "./api.js";
import { byId, button, element } from "./dom.js";
import { showProblem } from "./problem.js";

let changed = () => {}; // is called with a text and a position after a change
let open = null; // the reply in the dialog; null: a new one
let examples = []; // of that reply, each a list of messages
let mayWrite = true;

export function startEditor(onChange) {
  changed = onChange;
}

export function editNew() {
  mayWrite = true;
  show(null);
}

// Open the dialog on a reply; without the write key it can only be read.
export async function editReply(position, isWritable) {
  const { candidates: [reply] } = await ask(`v1/candidates?first=${position}&limit=1`);
  if (reply?.position !== position) throw new Error(`Reply ${position} is gone.`);
  mayWrite = isWritable;
  show(reply);
}

function show(reply) {
  open = reply;
  examples = (reply?.examples ?? []).map((example) => [...example]);
  byId("dialog-title").textContent = reply ? `Reply ${reply.position}` : "A new reply";
  byId("reply-text").value = reply?.text ?? "";
  byId("reply-title").value = reply?.title ?? "";
  byId("reply-text").readOnly = !mayWrite;
  byId("reply-title").readOnly = !mayWrite;
  byId("new-example").value = "";
  byId("merge-with").value = "";
  byId("existing").hidden = !reply;
  byId("dialog-status").textContent = "";
  showExamples();
  byId("editor").showModal();
  byId("reply-text").focus();
}

function showExamples() {
  byId("example-list").replaceChildren(...examples.map(exampleItem));
  if (!examples.length) byId("example-list").replaceChildren(element("li", "none", "No example."));
}

function exampleItem(example, place) {
  const item = element("li");
  const text = example.join(" ⏎ ");
  item.append(element("span", "text", text));
  if (!mayWrite) return item;
  item.append(button("Remove", `Remove the example ${text}`, () => {
    examples.splice(place, 1);
    showExamples();
    byId("new-example").focus();
  }));
  if (open?.examples.some((each) => each.join("\0") === example.join("\0"))) {
    item.append(button("Move to…", `Move the example ${text} to another reply`, () => move(example)));
  }
  return item;
}

function addExample() {
  const text = byId("new-example").value.trim();
  if (!text) return;
  examples.push([text]);
  byId("new-example").value = "";
  showExamples();
}

function otherPosition() {
  const text = byId("merge-with").value.trim().replace(/^#/, "");
  if (!/^\d{1,15}$/.test(text)) throw new Error("Write the number of another reply first.");
  return Number(text);
}

// Make a change, which returns what to say of it and a position; close the dialog if it was made.
async function make(change) {
  let made;
  try {
    made = await change();
  } catch (error) {
    byId("dialog-status").textContent = error.message;
    return;
  }
  byId("editor").close();
  try {
    await changed(...made);
    showProblem(null);
  } catch (error) {
    showProblem(error);
  }
}

function save() {
  if (!mayWrite) return;
  addExample();
  const text = byId("reply-text").value;
  const title = byId("reply-title").value;
  make(async () => {
    if (open) {
      await ask("v1/edits", { replace: { position: open.position, text, title, examples } });
      return [`Reply ${open.position} is saved.`, open.position];
    }
    const { positions: [position] } = await ask("v1/candidates", { candidates: [{ text, title, examples }] });
    return [`Reply ${position} is added.`, position];
  });
}

function deleteReply() {
  const { position } = open;
  make(async () => {
    await ask(`v1/candidates/${position}`, undefined, undefined, "DELETE");
    return [`Reply ${position} is deleted; the history can undo it.`, null];
  });
}

function merge() {
  const { position } = open;
  make(async () => {
    const into = otherPosition();
    await ask("v1/edits", { merge: { position: into, other: position } });
    return [`Reply ${position} is merged into ${into}.`, into];
  });
}

function move(example) {
  const { position } = open;
  make(async () => {
    const to = otherPosition();
    await ask("v1/edits", { move: { example, position, to } });
    return [`The example is moved to reply ${to}.`, position];
  });
}

byId("editor-form").addEventListener("submit", (event) => {
  event.preventDefault();
  save();
});
byId("new-example").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.isComposing) {
    event.preventDefault();
    addExample();
  }
});
byId("add-example").addEventListener("click", addExample);
byId("close").addEventListener("click", () => byId("editor").close());
byId("delete").addEventListener("click", deleteReply);
byId("merge").addEventListener("click", merge);
