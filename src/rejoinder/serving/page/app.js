// The page: a conversation, replies to it as it is written, intents, and the server's load.

import { ask, Refused, times, useKey } from "./api.js";
import { startEditing } from "./edit.js";

const PAUSE = 120; // milliseconds without a key before replies are asked for
const REFRESH = 2000; // milliseconds between two looks at the server's load
const $ = (id) => document.getElementById(id);
const draft = $("draft");
const messages = []; // {role, content}, oldest first
let about = null;
let timer = 0;
let pending = null; // of the request for replies that is under way
let shown = {}; // of each list of replies: the answer's id, the conversation, and positions
let mayWrite = true; // until the server refuses the key

// --- Conversation ----------------------------------------------------------------------------------------------------

function say(role, content) {
  messages.push({ role, content });
  const item = element("li", role === "assistant" ? "ours" : "theirs");
  item.append(element("span", "who", role === "assistant" ? "You" : "They"), content);
  $("messages").append(item);
  item.scrollIntoView({ block: "nearest" });
}

function sayTheirs() {
  const text = draft.value.trim();
  if (!text) return;
  say("user", text);
  draft.value = "";
  update();
}

function sayOurs(text, outcome = { text }, place = "first") {
  feedback(outcome, place);
  if (draft.value.trim()) {
    say("user", draft.value.trim());
    draft.value = "";
  }
  say("assistant", text);
  clearReplies("It is their turn: write what they say.");
  draft.focus();
}

function startAgain() {
  messages.length = 0;
  $("messages").replaceChildren();
  draft.value = "";
  clearReplies("Write what the other side says.");
  draft.focus();
}

function sayOwn() {
  const text = $("own-text").value.trim();
  if (!text) return;
  $("own-text").value = "";
  sayOurs(text);
}

function takeNone() {
  feedback({});
  clearReplies("Noted. Write your own reply, or go on.");
}

// Tells the server what became of the replies that it offered, once.
async function feedback(outcome, place = "first") {
  const offered = shown[place];
  shown = {};
  if (!offered || !mayWrite) return;
  const { answer, messages, positions } = offered;
  try {
    await ask("v1/feedback", { answer, source: source(), ...outcome });
  } catch (error) {
    if (error.status === 403) mayWrite = false;
    else if (error.status === 404 && place === "first") {
      ask("v1/feedback", { messages, offered: positions, source: source(), ...outcome }).catch(problem);
    } else problem(error);
  }
}

function source() { // of this tab
  if (!sessionStorage.getItem("source")) {
    const numbers = crypto.getRandomValues(new Uint32Array(4));
    sessionStorage.setItem("source", `page-${[...numbers].map((each) => each.toString(36)).join("")}`);
  }
  return sessionStorage.getItem("source");
}

// --- Replies ---------------------------------------------------------------------------------------------------------

function soon() {
  clearTimeout(timer);
  timer = setTimeout(update, PAUSE);
}

async function update() {
  clearTimeout(timer);
  pending?.abort();
  const text = draft.value.trim();
  const said = text ? [...messages, { role: "user", content: text }] : messages;
  if (!said.length || said.at(-1).role !== "user") return clearReplies("Write what the other side says.");
  const mine = (pending = new AbortController());
  const places = about.second ? ["first", "second"] : ["first"];
  for (const place of places) $(place).ariaBusy = "true";
  try {
    const found = await Promise.all(places.map((place) => replies(place, said, mine.signal)));
    if (mine.signal.aborted) return;
    places.forEach((place, i) => show($(place), found[i], said));
    await intents(said.at(-1).content, mine.signal);
    problem(null);
  } catch (error) {
    problem(error);
  } finally {
    if (pending === mine) for (const place of places) $(place).ariaBusy = "false";
  }
}

function replies(place, said, signal) {
  const body = { messages: said, k: 5, no_repeat: true, why: true, index: place };
  if (about[place].calibrated) body.minimum_confidence = 0;
  return ask("v1/replies", body, signal);
}

function show(list, { replies: found, confidence, answer }, said) {
  shown[list.id] = { answer, messages: said, positions: found.map((reply) => reply.position) };
  $("none").hidden = !found.length;
  if (!found.length) return list.replaceChildren(element("li", "none", "Nothing fits: no reply is near enough."));
  list.replaceChildren(...found.map((reply, place) => {
    const item = $("reply").content.cloneNode(true);
    item.querySelector(".text").textContent = reply.text;
    item.querySelector(".reply").addEventListener("click", () =>
      sayOurs(reply.text, { chosen: reply.position }, list.id));
    const meter = item.querySelector("meter");
    meter.value = Math.max(0, Math.min(1, reply.score));
    meter.setAttribute("aria-label", "score");
    item.querySelector(".score").textContent = reply.score.toFixed(3);
    const sure = item.querySelector(".confidence");
    if (reply.also) sure.textContent = "answers the other question";
    if (place === 0 && confidence !== null) {
      sure.textContent = `right with ${Math.round(100 * confidence)} %`;
      sure.classList.add("sure");
    }
    const why = item.querySelector(".why");
    if (reply.why && reply.why.view !== "text") {
      why.textContent = `like “${reply.why.like.at(-1)}” ${reply.why.similarity.toFixed(2)}`;
    }
    const teach = item.querySelector(".teach");
    if (list.id === "first" && mayWrite) teach.addEventListener("click", () => learn(teach, reply, said));
    else teach.remove();
    const payload = Object.entries(reply.payload).map(([name, value]) =>
      element("li", "", `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`));
    item.querySelector(".payload").replaceChildren(...payload);
    return item;
  }));
}

async function learn(button, reply, said) {
  button.disabled = true;
  try {
    await ask("v1/examples", { position: reply.position, examples: [said] });
    button.textContent = "Learned";
    problem(null);
  } catch (error) {
    button.disabled = false;
    problem(error);
  }
}

function clearReplies(hint) {
  pending?.abort();
  shown = {};
  for (const list of [$("first"), $("second")]) {
    list.ariaBusy = "false";
    list.replaceChildren(element("li", "none", hint));
  }
  $("none").hidden = true;
  $("intent-list").replaceChildren();
}

async function intents(text, signal) {
  if (!about.intents) return;
  const { data: [found] } = await ask("v1/intents", { input: text }, signal);
  const rows = found.ranking.slice(0, 5).flatMap(({ label, probability }) =>
    [element("dt", "", label), element("dd", "", `${Math.round(100 * probability)} %`)]);
  if (found.out_of_scope) rows.unshift(element("dt", "", "out of scope"), element("dd", "", "none of these"));
  $("intent-list").replaceChildren(...rows);
}

// --- Load ------------------------------------------------------------------------------------------------------------

async function load() {
  const rows = [];
  if (times.length) {
    const sorted = [...times].sort((a, b) => a - b);
    rows.push(["replies here, median", `${sorted[sorted.length >> 1].toFixed(0)} ms`], ["slowest", `${sorted.at(-1).toFixed(0)} ms`]);
    const most = sorted.at(-1);
    $("chart").replaceChildren(...times.map((time, i) => {
      const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const height = 58 * time / most;
      for (const [key, value] of [["x", 5 * i], ["width", 4], ["y", 60 - height], ["height", height]]) bar.setAttribute(key, value);
      return bar;
    }));
  }
  try {
    const metrics = await ask("metrics");
    const sum = (name, filter = "") => metrics.split("\n")
      .filter((line) => line.startsWith(name) && /[ {]/.test(line[name.length]) && line.includes(filter))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" "))), 0);
    const batches = sum("rejoinder_batch_jobs_count");
    rows.push(["requests so far", sum("rejoinder_requests_total").toLocaleString()], ["waiting", sum("rejoinder_queue")],
      ["computed together, mean", batches ? (sum("rejoinder_batch_jobs_sum") / batches).toFixed(1) : "–"]);
  } catch (error) {
    rows.push(["server", error.message]);
  }
  $("load").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", String(value))]));
}

// ---------------------------------------------------------------------------------------------------------------------

function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

function problem(error) {
  if (error?.name === "AbortError") return;
  $("problem").hidden = !error;
  $("problem").textContent = error?.message ?? "";
  if (error instanceof Refused && error.status === 401) $("key").hidden = false;
}

function title(place) {
  const { index, model, candidates } = about[place];
  return `${index}: ${candidates.toLocaleString()} replies, ${model}`;
}

async function start() {
  try {
    about = await ask("v1/about");
  } catch (error) {
    $("about").textContent = "Not connected.";
    return problem(error);
  }
  $("key").hidden = true;
  problem(null);
  $("about").textContent = title("first");
  $("first-name").textContent = about.second ? title("first") : "Replies";
  $("beside").hidden = !about.second;
  if (about.second) $("second-name").textContent = title("second");
  $("intents").hidden = !about.intents;
  clearReplies(about.first.candidates ? "Write what the other side says." : "There is no reply to choose from yet: add candidates.");
  load();
  setInterval(() => { if (!document.hidden) load(); }, REFRESH);
  draft.focus();
}

draft.addEventListener("input", soon);
draft.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    sayTheirs();
  }
});
$("write").addEventListener("submit", (event) => event.preventDefault());
$("own").addEventListener("submit", (event) => {
  event.preventDefault();
  sayOwn();
});
$("none").addEventListener("click", takeNone);
startEditing(problem, soon);
$("clear").addEventListener("click", startAgain);
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey($("key-value").value);
  start();
});
start();
