// Latency of this tab's requests, and the server's load.

import { ask, times } from "./api.js";
import { byId, definitions, svg } from "./dom.js";

const REFRESH = 2000; // milliseconds between two looks at the server's load
let timer = 0;

export function startLoad() {
  if (timer) return;
  const isSeen = () => !document.hidden && !byId("panel-try").hidden;
  timer = setInterval(() => {
    if (isSeen()) showLoad();
  }, REFRESH);
  showLoad();
}

async function showLoad() {
  const rows = latencies();
  try {
    rows.push(...loads(await ask("metrics")));
  } catch (error) {
    rows.push(["server", error.message]);
  }
  byId("load").replaceChildren(...definitions(rows));
}

function latencies() {
  if (!times.length) return [];
  const sorted = [...times].sort((a, b) => a - b);
  const slowest = sorted.at(-1);
  byId("chart").replaceChildren(...times.map((time, place) => {
    const height = 58 * time / slowest;
    return svg("rect", { x: 5 * place, width: 4, y: 60 - height, height });
  }));
  const median = sorted[sorted.length >> 1];
  return [["replies here, median", `${median.toFixed(0)} ms`], ["slowest", `${slowest.toFixed(0)} ms`]];
}

function loads(metrics) {
  const lines = metrics.split("\n");
  const sum = (name) => lines
    .filter((line) => line.startsWith(name) && /[ {]/.test(line[name.length]))
    .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" "))), 0);
  const batches = sum("rejoinder_batch_jobs_count");
  return [
    ["requests so far", sum("rejoinder_requests_total").toLocaleString()],
    ["waiting", sum("rejoinder_queue")],
    ["computed together, mean", batches ? (sum("rejoinder_batch_jobs_sum") / batches).toFixed(1) : "–"],
  ];
}
