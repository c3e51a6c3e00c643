// Tabs that a link can name: #replies shows the panel of that name, #replies/3 hands it "3" as well.

import { byId } from "./dom.js";

const KEYS = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
const tabs = [...document.querySelectorAll("[role=tab]")];

function nameOf(tab) {
  return tab.hash.slice(1);
}

// Show the tab that the address names, and the first one where it names none; call `shown` with its
// name and what follows it, now and whenever another is shown.
export function startTabs(shown) {
  function show() {
    const [name, ...rest] = location.hash.slice(1).split("/");
    const named = tabs.find((tab) => nameOf(tab) === name) ?? tabs[0];
    for (const tab of tabs) {
      const selected = tab === named;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = !selected;
    }
    document.title = `${named.textContent} · Rejoinder`;
    shown(nameOf(named), rest.join("/"));
  }

  for (const tab of tabs) {
    tab.addEventListener("keydown", (event) => {
      if (event.key === " ") {
        event.preventDefault();
        tab.click();
      }
      const step = KEYS[event.key];
      if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      const place = tabs.indexOf(tab) + step;
      const next = tabs[Number.isFinite(step) ? (place + tabs.length) % tabs.length : step < 0 ? 0 : tabs.length - 1];
      next.focus();
      location.replace(next.hash);
    });
  }
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address names a tab
    byId("main").focus();
  });
  window.addEventListener("hashchange", show);
  show();
}
