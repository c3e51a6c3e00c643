// Elements of the page, found and made.

export function byId(id) {
  return document.getElementById(id);
}

export function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

export function button(text, label, act) {
  const made = element("button", "", text);
  made.type = "button";
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

export function svg(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function definitions(rows) {
  return rows.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", String(value))]);
}
