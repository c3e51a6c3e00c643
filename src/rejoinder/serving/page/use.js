// The tab Use: the server's report on which replies were taken, which never, and which are missing.

import { ask } from "./api.js";
import { byId, element } from "./dom.js";

const NUMBERED = /^#(\d+)(?= )/;

export async function openUse(about) {
  const status = byId("report-status");
  if (!about.may_write) {
    byId("report").replaceChildren();
    status.textContent = "";
    return;
  }
  status.textContent = "The report is being made…";
  try {
    const html = await ask("v1/report?form=html");
    const article = html.slice(html.indexOf("<article>")); // without its style, which is this page's
    const page = new DOMParser().parseFromString(article, "text/html");
    for (const cell of page.querySelectorAll("td")) linkReply(cell);
    byId("report").replaceChildren(...page.querySelectorAll("article"));
    for (const table of byId("report").querySelectorAll("table")) frame(table);
    status.textContent = "Made anew once a minute at most.";
  } catch (error) {
    status.textContent = "There is no report.";
    throw error;
  }
}

// Make the number of a reply a link to it.
function linkReply(cell) {
  const [name, position] = NUMBERED.exec(cell.textContent) ?? [];
  if (!name) return;
  const link = element("a", "", name);
  link.href = `#replies/${position}`;
  cell.replaceChildren(link, cell.textContent.slice(name.length));
}

// Put a table where it can be scrolled, with the keyboard too.
function frame(table) {
  const scroller = element("div", "scroller");
  table.replaceWith(scroller);
  scroller.append(table);
  scroller.tabIndex = 0;
  scroller.setAttribute("role", "group");
  scroller.setAttribute("aria-label", scroller.previousElementSibling?.textContent ?? "Table");
}
