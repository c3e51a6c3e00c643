// The tab Try: a conversation, and replies to it as it is written.

import { showAnswer, showHint, percent, prepare } from "./answer.js";
import { ask } from "./api.js";
import { byId, definitions, element } from "./dom.js";
import { forget, remember, tell } from "./feedback.js";
import { startLoad } from "./load.js";
import { showProblem } from "./problem.js";

const PAUSE = 120; // milliseconds without a key before replies are asked for
const COUNT = 5; // replies
const ANY_SCORE = -1e9;
const BEGIN = "Write what the other side says.";
const draft = byId("draft");
const messages = []; // {role, content}, oldest first
let about = null;
let timer = 0;
let pending = null; // of the requests for replies that are under way

export function openTry(facts) {
  about = facts;
  for (const index of ["first", "second"]) {
    const own = about[index];
    byId(index).hidden = !own;
    prepare(byId(index), own && about.second ? `${own.index}: ${own.candidates.toLocaleString()} replies, ${own.model}` : "");
  }
  byId("intents").hidden = !about.intents;
  startLoad();
  return update();
}

// --- Conversation

function say(role, content) {
  messages.push({ role, content });
  const item = element("li", role === "assistant" ? "ours" : "theirs");
  item.append(element("span", "who", role === "assistant" ? "You" : "They"), content);
  byId("messages").append(item);
  item.scrollIntoView({ block: "nearest" });
  byId("messages").tabIndex = byId("messages").scrollHeight > byId("messages").clientHeight ? 0 : -1;
}

function sayTheirs() {
  const text = draft.value.trim();
  if (!text) return;
  say("user", text);
  draft.value = "";
  update();
}

function sayOurs(text, outcome = { text }, index = "first") {
  if (about?.may_write) tell(outcome, index);
  sayDraft();
  say("assistant", text);
  clear("It is their turn: write what they say.");
  draft.focus();
}

function sayDraft() {
  const text = draft.value.trim();
  if (text) say("user", text);
  draft.value = "";
}

function sayOwn() {
  const text = byId("own-text").value.trim();
  if (!text) return;
  byId("own-text").value = "";
  sayOurs(text);
}

function takeNone() {
  if (about.may_write) tell({});
  clear("Noted. Write your own reply, or go on.");
  byId("own-text").focus();
}

function startAgain() {
  messages.length = 0;
  byId("messages").replaceChildren();
  draft.value = "";
  clear(BEGIN);
  draft.focus();
}

// --- Replies

function soon() {
  clearTimeout(timer);
  timer = setTimeout(update, PAUSE);
}

async function update() {
  clearTimeout(timer);
  pending?.abort();
  if (!about) return;
  const text = draft.value.trim();
  const said = text ? [...messages, { role: "user", content: text }] : [...messages];
  if (!about.first.candidates) return clear("There is no reply to choose from yet: add some in the tab Replies.");
  if (!said.length) return clear(BEGIN);
  if (said.at(-1).role !== "user") return clear("It is their turn: write what they say.");
  const mine = (pending = new AbortController());
  const indexes = about.second ? ["first", "second"] : ["first"];
  for (const index of indexes) byId(index).ariaBusy = "true";
  try {
    const answers = await Promise.all(indexes.map((index) => replies(index, said, mine.signal)));
    if (mine.signal.aborted) return;
    forget();
    indexes.forEach((index, place) => show(index, answers[place], said));
    await intents(said.at(-1).content, mine.signal);
    showProblem(null);
  } catch (error) {
    showProblem(error);
  } finally {
    if (pending === mine) for (const index of indexes) byId(index).ariaBusy = "false";
  }
}

// Return what everybody gets by default, and the same without a threshold, with a confidence where there is one.
function replies(index, said, signal) {
  const body = { messages: said, k: COUNT, no_repeat: true, why: true, index };
  const isCalibrated = about[index].calibrated;
  if (!isCalibrated) body.minimum_confidence = null; // the server's is that of the other index
  const any = isCalibrated ? { minimum_confidence: 0 } : { minimum_score: ANY_SCORE };
  return Promise.all([body, { ...body, ...any }].map((each) => ask("v1/replies", each, signal)));
}

function show(index, [answer, all], said) {
  remember(index, answer, said);
  const minimumConfidence = about[index].calibrated ? about.minimum_confidence : null;
  const facts = { minimumScore: minimumConfidence === null ? about[index].minimum_score : null, minimumConfidence };
  const mayTeach = index === "first" && about.may_write;
  showAnswer(byId(index), said.at(-1).content, answer, all, facts, {
    take: (reply) => sayOurs(reply.text, { chosen: reply.position }, index),
    teach: mayTeach ? (button, reply) => teach(button, reply, said) : null,
  });
  if (index === "first") byId("none").hidden = !answer.replies.length;
}

async function teach(button, reply, said) {
  button.disabled = true;
  try {
    await ask("v1/examples", { position: reply.position, examples: [said] });
    button.textContent = "Learned";
    showProblem(null);
  } catch (error) {
    button.disabled = false;
    showProblem(error);
  }
}

function clear(hint) {
  pending?.abort();
  forget();
  if (about) for (const index of ["first", "second"]) showHint(byId(index), hint);
  byId("none").hidden = true;
  byId("intent-list").replaceChildren();
}

async function intents(text, signal) {
  if (!about.intents) return;
  const { data: [found] } = await ask("v1/intents", { input: text }, signal);
  const rows = found.ranking.slice(0, 5).map(({ label, probability }) => [label, percent(probability)]);
  if (found.out_of_scope) rows.unshift(["out of scope", "none of these"]);
  byId("intent-list").replaceChildren(...definitions(rows));
}

draft.addEventListener("input", soon);
draft.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    sayTheirs();
  }
});
byId("write").addEventListener("submit", (event) => event.preventDefault());
byId("own").addEventListener("submit", (event) => {
  event.preventDefault();
  sayOwn();
});
byId("none").addEventListener("click", takeNone);
byId("clear").addEventListener("click", startAgain);
