// The page: a workbench of three tabs over the server that it came from.

import { ask, useKey } from "./api.js";
import { byId } from "./dom.js";
import { askForKey, showProblem } from "./problem.js";
import { openReplies } from "./replies.js";
import { startTabs } from "./tabs.js";
import { openTry } from "./try.js";
import { openUse } from "./use.js";

const OPEN = { try: openTry, replies: openReplies, use: openUse };
let current = ["try", ""]; // the tab that is shown, and what the address says beside it
let latest = 0; // number of the latest opening

function describe({ index, model, candidates }) {
  return `${index}: ${candidates.toLocaleString()} replies, ${model}`;
}

// Ask what the server has, which may have changed, and fill the tab that is shown.
async function open() {
  const number = ++latest;
  let about;
  try {
    about = await ask("v1/about");
  } catch (error) {
    showProblem(error);
    return false;
  }
  if (number !== latest) return false;
  byId("about").textContent = describe(about.first);
  document.body.classList.remove("unconnected");
  document.body.classList.toggle("read-only", !about.may_write);
  showProblem(null);
  const [name, rest] = current;
  try {
    await OPEN[name](about, rest);
  } catch (error) {
    showProblem(error);
  }
  return true;
}

async function connect() {
  const connected = await open();
  if (connected && current[0] === "try") byId("draft").focus();
}

async function describeAgain() {
  const about = await ask("v1/about");
  byId("about").textContent = describe(about.first);
}

window.addEventListener("changed", () => describeAgain().catch(showProblem));
byId("key").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(byId("key-value").value);
  byId("key").hidden = true;
  connect();
});
for (const button of document.querySelectorAll(".other-key")) button.addEventListener("click", askForKey);
let started = false;
startTabs((name, rest) => {
  current = [name, rest];
  byId("editor").close();
  if (started) open();
});
started = true;
connect();
