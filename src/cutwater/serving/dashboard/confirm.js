// Is it meant? A dialog with what is still to be said; gives the values of its fields, or null.
import { byId, h } from "/assets/dom.js";

export function confirmed({ name, title, text, fields, grave }) {
  const dialog = byId("dialog");
  const inputs = fields.map(makeField);
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, title), h("p", null, text), inputs.map((each) => each.root),
    h("div", { class: "dialog-buttons" },
      h("button", { type: "button", onclick: () => dialog.close("") }, "Go back"),
      h("button", { type: "submit", value: "yes", class: grave ? "primary grave" : "primary" }, name)));
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" ? Object.fromEntries(inputs.map((each) => each.value())) : null), { once: true });
  });
}

function makeField(field) {
  const id = `field-${field.name}`;
  const hint = field.hint ? h("p", { class: "hint", id: `${id}-hint` }, field.hint) : null;
  const input = h("input", {
    id, type: field.type, placeholder: field.placeholder, min: field.min, max: field.max, value: field.value, required: field.required ?? false,
    "aria-describedby": hint ? `${id}-hint` : null, autocomplete: "off", spellcheck: "false",
  });
  const label = h("label", { for: id }, field.label);
  const value = () => {
    if (field.type === "checkbox") return [field.name, input.checked];
    if (field.type === "number") return [field.name, Number(input.value)];
    return [field.name, input.value.trim() || null];
  };
  return { value, root: field.type === "checkbox" ? h("div", { class: "check" }, input, label) : h("div", { class: "field" }, label, input, hint) };
}
