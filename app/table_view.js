// Draws the rows that Python gives, sorts them here, and reports which one is picked.
const below = (a, b) => {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
};

export default function (component) {
  const { parentElement, setTriggerValue } = component;
  const data = { ...JSON.parse(component.data[0]), ...component.data[1] };
  const root = parentElement.querySelector(".root");
  const scroll = root.querySelector(".scroll");
  const table = root.querySelector("table");
  const focused = parentElement.activeElement;
  const focus = focused?.dataset?.key ? { key: focused.dataset.key } : focused?.dataset?.column ? { column: focused.dataset.column } : null;
  scroll.style.maxHeight = `${data.height}px`;
  scroll.setAttribute("aria-label", data.label);
  root.classList.toggle("pickable", data.pickable);
  root.selected = data.selected;
  root.sorting ??= { column: -1, down: false };

  const mark = (key) => {
    for (const row of table.tBodies[0]?.rows ?? []) {
      const chosen = row.dataset.row === key;
      row.classList.toggle("chosen", chosen);
      const radio = row.querySelector("input");
      if (radio) radio.checked = chosen;
    }
  };

  const fill = () => {
    const { column, down } = root.sorting;
    const order = data.keys.map((_, i) => i);
    if (column >= 0) {
      const value = (i) => (data.orders[i][column] === null && !data.columns[column].number ? data.texts[i][column] || null : data.orders[i][column]);
      order.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        const sign = x === null || y === null ? 1 : down ? -1 : 1; // what is not known stays last
        return sign * below(x, y) || a - b;
      });
    }
    [...table.tHead.rows[0].cells].forEach((cell, i) => {
      cell.setAttribute("aria-sort", i !== column ? "none" : down ? "descending" : "ascending");
    });
    const body = document.createElement("tbody");
    for (const i of order) {
      const row = body.insertRow();
      row.dataset.row = data.keys[i];
      data.texts[i].forEach((text, j) => {
        const cell = document.createElement(j ? "td" : "th");
        cell.classList.toggle("number", data.columns[j].number);
        cell.classList.toggle("long", text.length > 50);
        cell.title = text;
        if (!j) cell.scope = "row";
        if (!j && data.pickable) {
          const label = document.createElement("label");
          const radio = Object.assign(document.createElement("input"), { type: "radio", name: "row" });
          radio.dataset.key = data.keys[i];
          label.append(radio, text);
          cell.append(label);
        } else cell.textContent = text;
        row.append(cell);
      });
    }
    table.tBodies[0]?.remove();
    table.append(body);
    mark(root.selected);
  };

  if (!table.tHead || root.titles !== data.columns.map((c) => c.title).join("\n")) {
    root.titles = data.columns.map((c) => c.title).join("\n");
    table.replaceChildren();
    root.drawn = null;
    const head = table.createTHead().insertRow();
    data.columns.forEach((column, i) => {
      const cell = Object.assign(document.createElement("th"), { scope: "col", title: column.meaning });
      cell.classList.toggle("number", column.number);
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: column.title });
      button.dataset.column = i;
      cell.append(button);
      head.append(cell);
    });
  }
  table.tHead.onclick = (event) => {
    const column = Number(event.target.closest?.("button")?.dataset.column ?? -1);
    if (column < 0) return;
    const { sorting } = root;
    if (sorting.column !== column) root.sorting = { column, down: false };
    else root.sorting = sorting.down ? { column: -1, down: false } : { column, down: true };
    fill();
  };
  const drawn = component.data[0];
  if (root.drawn !== drawn) {
    root.drawn = drawn;
    // After the first paint: the table stands below a chart, which should not wait for it.
    if (table.tBodies[0]) fill();
    else (window.requestIdleCallback ?? setTimeout)(fill, { timeout: 500 });
  } else mark(data.selected);

  const pick = (key) => {
    root.selected = key;
    mark(key);
    setTriggerValue("picked", key);
  };
  table.onchange = (event) => pick(event.target.dataset.key);
  table.onclick = (event) => {
    const row = event.target.closest?.("tbody tr");
    if (!row || !data.pickable || event.target.closest("label, input")) return;
    pick(row.dataset.row);
  };
  if (focus?.key) table.querySelector(`input[data-key="${CSS.escape(focus.key)}"]`)?.focus({ preventScroll: true });
}
