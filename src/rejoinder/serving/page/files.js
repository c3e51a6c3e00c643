// Files of replies: one that is added to the index, and one of all its replies.

import { ask } from "./api.js";
import { byId, element } from "./dom.js";

const PIECE = 32768; // bytes that become characters at once
const PAGE = 1000; // replies of a request

export function startFiles(attempt, changed, report) {
  byId("import").addEventListener("change", async () => {
    const [file] = byId("import").files;
    if (file) await attempt(() => importFile(file, changed));
    byId("import").value = "";
  });
  byId("export").addEventListener("click", () => attempt(() => exportFile(report)));
}

async function importFile(file, changed) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let start = 0; start < bytes.length; start += PIECE) {
    text += String.fromCharCode(...bytes.subarray(start, start + PIECE));
  }
  const { positions, known, notes } = await ask("v1/import", { name: file.name, content: btoa(text) });
  await changed([`${positions.length} replies are added, ${known} were there.`, ...notes].join(" "), null);
}

async function exportFile(report) {
  const lines = [];
  for (let next = 0; next !== null;) {
    const page = await ask(`v1/candidates?first=${next}&limit=${PAGE}`);
    for (const { text, title, examples, payload } of page.candidates) {
      lines.push(`${JSON.stringify({ ...payload, text, title, examples })}\n`);
    }
    next = page.next;
  }
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([lines.join("")], { type: "application/jsonl" }));
  link.download = "replies.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
  report(`${lines.length} replies are written.`);
}
