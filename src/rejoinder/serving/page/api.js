// Requests to the server that this file came from. The key stays in this tab.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const times = []; // milliseconds of the latest requests for replies

export function useKey(key) {
  sessionStorage.setItem("key", key);
}

export async function ask(path, body, signal, method = body === undefined ? "GET" : "POST") {
  const headers = { "content-type": "application/json" };
  const key = sessionStorage.getItem("key");
  if (key) headers.authorization = `Bearer ${key}`;
  const options = { method, headers, signal };
  if (body !== undefined) options.body = JSON.stringify(body);
  const begin = performance.now();
  let response;
  try {
    response = await fetch(new URL(path, import.meta.url), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer. Is it running?");
  }
  const text = await response.text();
  if (path === "v1/replies" && response.ok) {
    times.push(performance.now() - begin);
    times.splice(0, times.length - 60);
  }
  if (!response.ok) {
    let message = `The server answered ${response.status}.`;
    try {
      message = JSON.parse(text).error.message;
    } catch { /* not one of its own errors: a proxy's page, say */ }
    throw new Refused(response.status, message);
  }
  return response.headers.get("content-type").startsWith("application/json") ? JSON.parse(text) : text;
}
