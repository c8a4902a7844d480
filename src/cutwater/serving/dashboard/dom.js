// Elements in one expression. Text always goes in as text: nothing that a job says is read as HTML.
const SVG = "http://www.w3.org/2000/svg";

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(name, properties, ...children) {
  return filled(document.createElement(name), properties, children);
}

export function s(name, properties, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// Touches the page only when there is something new: selections and readers stay where they are.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function table(caption, columns, rows) {
  const head = columns.map((column) => h("th", { scope: "col", class: column.figure ? "figure" : null }, column.name));
  const body = rows.map((cells) =>
    h("tr", null, cells.map((cell, at) =>
      at === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: columns[at].figure ? "figure" : null }, cell))));
  return h("div", { class: "table-frame", tabindex: "0", role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "hidden" }, caption), h("thead", null, h("tr", null, head)), h("tbody", null, body)));
}

export function text(name) {
  return { name };
}

export function figure(name) {
  return { name, figure: true };
}
