// Feedback: what became of the replies that the server offered.

import { ask } from "./api.js";
import { showProblem } from "./problem.js";

let offered = {}; // by index: the answer's id, the conversation, and positions
let isTaken = true; // until the server says that it may write no log

export function remember(index, answer, messages) {
  offered[index] = { answer: answer.answer, messages, positions: answer.replies.map((reply) => reply.position) };
}

export function forget() {
  offered = {};
}

// Tell the server, once, what became of the replies: {chosen}, {text}, or {} where none was taken.
export async function tell(outcome, index = "first") {
  const own = offered[index];
  forget();
  if (!own || !isTaken) return;
  const source = sourceOfTab();
  try {
    await ask("v1/feedback", { answer: own.answer, source, ...outcome });
  } catch (error) {
    if (error.status === 403) isTaken = false;
    else if (error.status === 404 && index === "first") {
      const { messages, positions } = own; // the server has forgotten the answer
      ask("v1/feedback", { messages, offered: positions, source, ...outcome }).catch(showProblem);
    } else showProblem(error);
  }
}

function sourceOfTab() {
  if (!sessionStorage.getItem("source")) {
    const numbers = crypto.getRandomValues(new Uint32Array(4));
    sessionStorage.setItem("source", `page-${[...numbers].map((number) => number.toString(36)).join("")}`);
  }
  return sessionStorage.getItem("source");
}
