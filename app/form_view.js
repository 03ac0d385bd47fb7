// Draws the fields that Python describes and reports what stands in all of them, at every change.
const PAUSE = 400; // milliseconds after the last key, so that half a number is not answered

const HOLD = 150; // milliseconds that a link waits behind what was typed, see below

const make = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

const sideBySide = (field, type, role) => {
  const heading = make("span", { id: `${field.name}-label`, className: "label", textContent: field.label });
  const boxes = field.choices.map(([value]) => make("input", { type, name: field.name, value }));
  const options = boxes.map((box, i) => make("label", {}, box, make("span", { textContent: field.choices[i][1] })));
  const control = make("div", { className: "options" }, ...options);
  control.setAttribute("role", role);
  control.setAttribute("aria-labelledby", heading.id);
  return { drawn: make("div", {}, heading, control), control, boxes };
};

// A field: what is drawn, the element that carries its message, and how its text is shown and read. A text that cannot
// be shown (the address may hold any) is given back as it came, until the person chooses another.
const KINDS = {
  text(field, limit) {
    const input = make("input", { type: "text", id: field.name, autocomplete: "off", spellcheck: false, placeholder: field.empty });
    if (limit) input.maxLength = limit;
    input.style.width = `${field.width}px`;
    input.dataset.live = field.live;
    const drawn = make("div", {}, make("label", { htmlFor: field.name, textContent: field.label }), input);
    return { drawn, control: input, show: (text) => { if (input.value !== text) input.value = text; }, read: () => input.value };
  },
  choice(field) {
    const { drawn, control, boxes } = sideBySide(field, "radio", "radiogroup");
    let shown = "";
    const show = (text) => { shown = text; for (const radio of boxes) radio.checked = radio.value === text; };
    return { drawn, control, show, read: () => boxes.find((radio) => radio.checked)?.value ?? shown };
  },
  several(field) {
    const { drawn, control, boxes } = sideBySide(field, "checkbox", "group");
    const show = (text) => { for (const box of boxes) box.checked = text.split(",").includes(box.value); };
    return { drawn, control, show, read: () => boxes.filter((box) => box.checked).map((box) => box.value).join(",") };
  },
  list(field) {
    const options = field.choices.map(([value, textContent]) => make("option", { value, textContent }));
    const select = make("select", { id: field.name }, ...options);
    const drawn = make("div", {}, make("label", { htmlFor: field.name, textContent: field.label }), select);
    let shown = "";
    const show = (text) => { shown = text; select.selectedIndex = options.findIndex((option) => option.value === text); };
    return { drawn, control: select, show, read: () => (select.selectedIndex < 0 ? shown : select.value) };
  },
  switch(field) {
    const input = make("input", { type: "checkbox", id: field.name });
    input.setAttribute("role", "switch");
    const drawn = make("label", { className: "switch" }, input, make("span", { textContent: field.label }));
    let shown = "";
    const show = (text) => {
      shown = text;
      input.checked = ["on", "true", "1", "yes"].includes(text.toLowerCase());
      input.indeterminate = !input.checked && !["off", "false", "0", "no"].includes(text.toLowerCase());
    };
    return { drawn, control: input, show, read: () => (input.indeterminate ? shown : input.checked ? "on" : "off") };
  },
  button(field) {
    const control = make("button", { type: "button", name: field.name, textContent: field.label });
    return { drawn: make("div", {}, control), control };
  },
};

const draw = (root, { fields, limit }) => {
  root.fields = new Map(fields.map((field) => [field.name, KINDS[field.kind](field, limit)]));
  for (const field of root.fields.values()) field.drawn.classList.add("field");
  root.replaceChildren(...[...root.fields.values()].map(({ drawn }) => make("div", { className: "place" }, drawn)));
};

const say = (name, field, message) => {
  if ((field.message?.textContent ?? "") === message) return; // told once is enough, to a screen reader too
  field.message?.remove();
  field.message = null;
  for (const mark of ["aria-invalid", "aria-describedby"]) field.control.removeAttribute(mark);
  if (!message) return;
  field.message = make("div", { id: `${name}-message`, className: "message", textContent: message });
  field.message.setAttribute("role", "alert");
  field.drawn.after(field.message);
  field.control.setAttribute("aria-invalid", "true");
  field.control.setAttribute("aria-describedby", field.message.id);
};

export default function (component) {
  const { parentElement, setStateValue, setTriggerValue } = component;
  const [fields, now] = [component.data[0], component.data[1]];
  const root = parentElement.querySelector(".root");
  if (root.drawn !== fields) {
    root.drawn = fields;
    root.edition = null;
    draw(root, JSON.parse(fields));
  }
  const texts = [...root.fields].filter(([, field]) => field.read);
  const read = () => Object.fromEntries(texts.map(([name, field]) => [name, field.read()]));
  if (root.edition !== now.edition) {
    clearTimeout(root.timer); // what was typed into another edition is no longer asked for
    root.edition = now.edition;
    for (const [name, field] of texts) field.show(now.texts[name]);
    root.told = JSON.stringify(read());
  }
  for (const [name, field] of root.fields) say(name, field, now.messages[name] ?? "");

  const tell = () => {
    clearTimeout(root.timer);
    const all = read(); // of all fields, so that none can be lost on the way
    const told = JSON.stringify(all);
    if (told === root.told) return;
    root.told = told;
    root.held = performance.now() + HOLD;
    setStateValue("typed", { edition: root.edition, texts: all });
  };
  // A click that ends the typing by leaving the page would reach the server first, and what was typed, which is told a
  // moment later on behalf of the page that was left, would bring that page back. So such a click waits.
  const hold = (event) => {
    const link = event.composedPath()[0].closest?.("a[href]");
    const wait = root.held - performance.now();
    if (!link || !(wait > 0) || !event.isTrusted || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    setTimeout(() => link.click(), wait);
  };
  document.addEventListener("click", hold, true);
  root.oninput = (event) => {
    clearTimeout(root.timer);
    if (event.target.dataset.live === "true") root.timer = setTimeout(tell, PAUSE);
  };
  root.onkeydown = (event) => {
    if (event.key !== "Enter") return;
    if (event.target.type === "checkbox") event.target.click(); // as a button would, which it looks like
    else tell();
  };
  root.onchange = tell; // a choice, or the field was left
  root.onclick = (event) => { if (event.target.type === "button") setTriggerValue("pressed", event.target.name); };
  return () => {
    clearTimeout(root.timer);
    document.removeEventListener("click", hold, true);
  };
}
