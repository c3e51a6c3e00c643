// An answer of the server: its replies, how the message was read, what was left out, and why it is silent.

import { byId, element } from "./dom.js";

const UNREAD = "most of its words are neither English nor of the replies";

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

// Make the places of an index's answer in its container, once.
export function prepare(container, name) {
  if (!container.children.length) container.append(byId("answer").content.cloneNode(true));
  container.querySelector(".name").textContent = name;
  container.querySelector(".name").hidden = !name;
}

export function showHint(container, hint) {
  container.ariaBusy = "false";
  container.querySelector(".status").textContent = hint;
  for (const list of container.querySelectorAll("ol, .notes")) list.replaceChildren();
  container.querySelector(".left-out").hidden = true;
}

// Show an answer.
//   message: the newest one of the conversation
//   answer: what everybody gets by default
//   all: the same search without a threshold, if it was calibrated with a confidence
//   facts: {minimumScore, minimumConfidence}, the thresholds; null: none
//   act: {take(reply), teach(button, reply)}; teach may be null
export function showAnswer(container, message, answer, all, facts, act) {
  const confidence = answer.confidence ?? all.confidence;
  const positions = new Set(answer.replies.map((reply) => reply.position));
  const leftOut = all.replies.filter((reply) => !positions.has(reply.position));
  const [list, others] = container.querySelectorAll("ol");
  const count = answer.replies.length;
  container.querySelector(".status").textContent = count
    ? `${count} ${count === 1 ? "reply" : "replies"}`
    : silence(answer, all, confidence, facts);
  container.querySelector(".notes").replaceChildren(...noteTexts(answer).map((text) => element("li", "", text)));
  const item = (reply, sure) => replyItem(reply, sure, wordCount(message), act);
  list.replaceChildren(...answer.replies.map((reply, place) => item(reply, place ? null : confidence)));
  others.replaceChildren(...leftOut.map((reply) => item(reply, null)));
  const details = container.querySelector(".left-out");
  details.hidden = !leftOut.length;
  details.open = !count;
  details.querySelector("summary").textContent = leftOutText(answer, leftOut, facts);
}

function silence(answer, all, confidence, { minimumScore, minimumConfidence }) {
  if (answer.reason === "language") return `No reply: ${UNREAD}.`;
  if (answer.reason === "denied") return "No reply: what is nearest answers the opposite.";
  if (!all.replies.length) return "No reply: the index has none to offer here.";
  if (minimumConfidence !== null && confidence !== null && confidence < minimumConfidence) {
    return `No reply: the best one is right with ${percent(confidence)}; this server answers from ${percent(minimumConfidence)} on.`;
  }
  if (minimumScore !== null) {
    const best = all.replies[0].score;
    return `No reply: the best score is ${best.toFixed(3)}; this index answers from ${minimumScore.toFixed(3)} on.`;
  }
  return "No reply is near enough.";
}

function leftOutText(answer, leftOut, { minimumScore }) {
  const isBelow = minimumScore !== null && leftOut.every((reply) => reply.score < minimumScore);
  const reason = answer.replies.length && isBelow ? `, below the score of ${minimumScore.toFixed(3)}` : "";
  return `${leftOut.length} left out${reason}`;
}

function noteTexts({ notes, reason }) {
  const { parts, cut, corrected, language } = notes ?? {};
  const texts = Object.entries(corrected ?? {}).map(([word, right]) => `“${word}” was read as “${right}”.`);
  if (parts) texts.push(`It was searched in ${parts} parts: its sentences and the whole.`);
  if (cut) texts.push("It is long: some of it was not read.");
  if (language && reason !== "language") texts.push(`Its language is unknown: ${UNREAD}.`);
  return texts;
}

function replyItem(reply, confidence, words, { take, teach }) {
  const item = byId("reply").content.cloneNode(true);
  const fill = (name, text) => {
    const place = item.querySelector(name);
    place.textContent = text;
    if (!text) place.remove();
  };
  item.querySelector(".text").textContent = reply.text;
  item.querySelector(".reply").addEventListener("click", () => take(reply));
  const meter = item.querySelector("meter");
  meter.value = Math.max(0, Math.min(1, reply.score));
  meter.setAttribute("aria-label", "score");
  fill(".subject", reply.title ?? "");
  fill(".score", `score ${reply.score.toFixed(3)}`);
  fill(".confidence", confidence === null ? "" : `right with ${percent(confidence)}`);
  fill(".also", sentenceText(reply, words));
  fill(".why", likeText(reply.why));
  fill(".opposes", reply.why?.opposes ? `Its score was lowered: “${reply.why.opposes}” says the opposite.` : "");
  const button = item.querySelector(".teach");
  if (teach) button.addEventListener("click", () => teach(button, reply));
  else button.remove();
  item.querySelector(".payload").replaceChildren(...payloadItems(reply));
  return item;
}

// Return which part of a message of so many words is answered; nothing where it is the whole.
function sentenceText({ also, why }, words) {
  const isPart = why?.sentence && wordCount(why.sentence) < words;
  const sentence = isPart ? ` “${why.sentence}”` : "";
  if (also) return `answers the other question${sentence}`;
  return sentence ? `answers${sentence}` : "";
}

function likeText(why) {
  if (!why || why.view === "text") return "";
  const kind = why.view === "title" ? "its title" : why.learned ? "learned example" : "example";
  const text = why.like.length ? `“${why.like.at(-1)}”` : "a message that customers wrote";
  return `like: ${text} (${kind}, ${why.similarity.toFixed(2)})`;
}

function wordCount(text) {
  return text.trim().split(/\s+/).length;
}

function payloadItems({ payload, title }) {
  return Object.entries(payload)
    .filter(([name, value]) => name !== "title" || value !== title)
    .map(([name, value]) => element("li", "", `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`));
}
