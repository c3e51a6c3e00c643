// Suggestions beside a text field of another page, which serves this server's files below its own address.

import { ask } from "./api.js";

const STYLE = `
  :host { display: block; margin: 0.5em 0; font: inherit; color-scheme: light dark; }
  ol { list-style: none; margin: 0; padding: 0; display: grid; gap: 0.4em; }
  p { margin: 0 0 0.4em; font-size: 0.9em; }
  button { display: block; width: 100%; padding: 0.5em 0.7em; text-align: start; white-space: pre-wrap;
    overflow-wrap: anywhere; font: inherit; color: CanvasText; background: Canvas; border: 1px solid GrayText;
    border-radius: 0.4em; cursor: pointer; }
  button:hover, button:focus-visible { outline: 2px solid Highlight; }
`;
const PLACEHOLDER = /\{\{[^{}]*\}\}|\{[A-Za-z_][^{}]*\}/;

// Show replies to a conversation below a field: a textarea, an input, or an element that can be edited.
//   messages: returns the conversation so far, oldest first: texts, or {role, content}
//   count: replies at most
//   source: whose feedback it is (a name or a number)
// Returns refresh(), to call when a message has come; sent(text), to call when one was sent, unless the
// field's form is submitted; and remove().
export function suggest(field, { messages, count = 3, source = null }) {
  const host = document.createElement("div");
  const root = host.attachShadow({ mode: "open" });
  const status = document.createElement("p");
  const list = document.createElement("ol");
  const section = document.createElement("section");
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];
  status.setAttribute("role", "status");
  section.setAttribute("aria-label", "Suggested replies");
  section.append(status, list);
  root.append(section);
  field.after(host);
  let pending = null; // of the request that is under way
  let offered = null; // the answer that is shown
  let picked = null; // the reply that was put into the field

  async function refresh() {
    pending?.abort();
    const mine = (pending = new AbortController());
    offered = picked = null;
    list.replaceChildren();
    const said = messages();
    if (!said.length) return tell("");
    try {
      const answer = await ask("v1/replies", { messages: said, k: count, no_repeat: true }, mine.signal);
      if (mine.signal.aborted) return;
      offered = answer;
      list.replaceChildren(...answer.replies.map(item));
      const shown = answer.replies.length;
      tell(shown ? `${shown} suggested ${shown === 1 ? "reply" : "replies"}` : "No suggestion fits.");
    } catch (error) {
      if (error.name !== "AbortError") tell(error.message);
    }
  }

  function item(reply) {
    const made = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = reply.text;
    button.addEventListener("click", () => pick(reply));
    made.append(button);
    return made;
  }

  function pick(reply) {
    picked = reply;
    write(field, reply.text);
  }

  async function sent(text) {
    if (offered === null || !text.trim()) return;
    const isPicked = picked !== null && picked.text.trim() === text.trim();
    const outcome = { answer: offered.answer, source };
    if (isPicked) outcome.chosen = picked.position;
    else outcome.text = text;
    offered = picked = null;
    list.replaceChildren();
    tell("");
    try {
      await ask("v1/feedback", outcome);
    } catch (error) {
      tell(error.message);
    }
  }

  function tell(text) {
    status.textContent = text;
    status.hidden = !text;
  }

  const submitted = () => sent(read(field));
  field.form?.addEventListener("submit", submitted);
  refresh();
  return {
    refresh,
    sent,
    remove() {
      pending?.abort();
      field.form?.removeEventListener("submit", submitted);
      host.remove();
    },
  };
}

function read(field) {
  return "value" in field ? field.value : field.textContent;
}

// Put a text into a field as typing does, and select its first placeholder.
function write(field, text) {
  if ("value" in field) field.value = text;
  else field.textContent = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
  const match = PLACEHOLDER.exec(text);
  if (match && field.setSelectionRange) field.setSelectionRange(match.index, match.index + match[0].length);
}
