// The problem above the contents of the tabs, and the field for a key.

import { Refused } from "./api.js";
import { byId } from "./dom.js";

// Show an error; null: there is none any more.
export function showProblem(error) {
  if (error?.name === "AbortError") return;
  const isLocked = error instanceof Refused && error.status === 401;
  byId("problem").hidden = !error;
  byId("problem").textContent = isLocked ? "This server needs a valid key: write it above." : error?.message ?? "";
  if (!isLocked) return;
  document.body.classList.add("unconnected");
  byId("about").textContent = "Not connected.";
  byId("key").hidden = false;
}

export function askForKey() {
  byId("key").hidden = false;
  byId("key-value").value = "";
  byId("key-value").focus();
}
