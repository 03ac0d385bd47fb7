// Draws the figure that Python describes, for the width at hand, and reports which row is picked.
const NS = "http://www.w3.org/2000/svg";
const AXIS_ROOM = 44; // below the plot: numbers and a title
const EDGE = 10;
const MONOSPACE = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'; // as the style sheet has it

const element = (parent, tag, attributes = {}, text = null) => {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  parent.appendChild(made);
  return made;
};

// Plotly's names of symbols; every path is centred and fits a circle of radius 1.
const polygon = (corners, turn = -90, inner = null) => {
  const points = [];
  for (let i = 0; i < corners * (inner ? 2 : 1); i++) {
    const angle = ((turn + (360 * i) / (corners * (inner ? 2 : 1))) * Math.PI) / 180;
    const radius = inner && i % 2 ? inner : 1;
    points.push(`${(radius * Math.cos(angle)).toFixed(3)} ${(radius * Math.sin(angle)).toFixed(3)}`);
  }
  return `M${points.join("L")}Z`;
};
const SHAPES = {
  circle: "M-1 0A1 1 0 1 1 1 0A1 1 0 1 1 -1 0Z",
  diamond: polygon(4),
  star: polygon(5, -90, 0.45),
  x: "M-.7 -.7L.7 .7M-.7 .7L.7 -.7",
  square: polygon(4, -45),
  "triangle-up": polygon(3),
};

const drawMark = (parent, trace, x, y) => {
  const open = trace.symbol.endsWith("-open");
  const shape = trace.symbol.replace("-open", "").replace("-thin", "");
  const stroked = open || shape === "x";
  const attributes = { d: SHAPES[shape] ?? SHAPES.circle, opacity: trace.opacity };
  attributes.transform = `translate(${x} ${y}) scale(${trace.size / 2})`;
  attributes.fill = stroked ? "none" : trace.colour;
  if (stroked) Object.assign(attributes, { stroke: trace.colour, "stroke-width": 2, "vector-effect": "non-scaling-stroke" });
  return element(parent, "path", attributes);
};

const dashes = { dash: "7 5", dot: "2 4", solid: "none" };
// Lines of one style are one path: a browser takes a hundred elements ten times as long.
const drawLines = (parent, trace, lines) =>
  element(parent, "path", {
    d: lines.map(([x1, y1, x2, y2]) => `M${x1.toFixed(1)} ${y1.toFixed(1)}L${x2.toFixed(1)} ${y2.toFixed(1)}`).join(""),
    fill: "none", stroke: trace.colour, "stroke-width": trace.width, "stroke-dasharray": dashes[trace.dash] ?? "none",
  });

// A line with a head, which stops short of the dot that it points at.
const drawArrow = (parent, trace, [x1, y1, x2, y2], standoff = 8) => {
  const length = Math.hypot(x2 - x1, y2 - y1);
  const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
  if (length < standoff + 12) return; // no room: the dots touch
  const [tipX, tipY] = [x2 - dx * standoff, y2 - dy * standoff];
  const [footX, footY] = [tipX - dx * 11, tipY - dy * 11];
  drawLines(parent, trace, [[x1, y1, footX, footY]]);
  const corners = [[tipX, tipY], [footX - dy * 5, footY + dx * 5], [footX + dy * 5, footY - dx * 5]];
  const d = `M${corners.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}Z`;
  element(parent, "path", { class: "head", d, fill: trace.colour });
};

const niceTicks = ([low, high], count) => {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) {
    ticks.push([value, Number(value.toPrecision(6)).toLocaleString("en-US")]);
  }
  return ticks;
};

const span = (values, room = 0.06) => {
  const known = values.filter((v) => v !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const margin = (high - low || Math.abs(high) || 1) * room;
  return [low - margin, high + margin];
};

const textWidth = (root, texts, font) => {
  const context = (root.canvas ??= document.createElement("canvas")).getContext("2d");
  context.font = font;
  return Math.max(0, ...texts.map((text) => context.measureText(text).width));
};

export default function (component) {
  const { parentElement, setTriggerValue } = component;
  const data = { ...JSON.parse(component.data[0]), ...component.data[1] };
  const root = parentElement.querySelector(".root");
  const [legend, plot, tip] = [".legend", ".plot", ".tip"].map((name) => root.querySelector(name));
  const hadFocus = parentElement.activeElement?.classList?.contains("row");
  root.classList.toggle("pickable", data.pickable);
  root.querySelector("p").textContent = data.label;

  const drawLegend = () => {
    legend.replaceChildren();
    for (const trace of data.traces.filter((t) => t.legend).sort((a, b) => a.rank - b.rank)) {
      const item = document.createElement("span");
      const sign = element(item, "svg", { width: 18, height: 14, "aria-hidden": "true" });
      if (trace.arrow) drawArrow(sign, trace, [0, 7, 22, 7], 4);
      else if (trace.lines) drawLines(sign, trace, [[0, 7, 18, 7]]);
      else drawMark(sign, { ...trace, size: Math.min(trace.size, 12) }, 9, 7);
      item.append(trace.name);
      legend.append(item);
    }
  };

  const showTip = (lines, x, y) => {
    if (!lines?.length) return hideTip();
    tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
    tip.hidden = false;
    const left = Math.min(Math.max(0, x + 16), Math.max(0, root.clientWidth - tip.offsetWidth));
    const below = y + 18;
    const above = y - tip.offsetHeight - 12;
    tip.style.left = `${left}px`;
    tip.style.top = `${plot.offsetTop + (below + tip.offsetHeight > plot.clientHeight && above > 0 ? above : below)}px`;
  };
  const hideTip = () => { tip.hidden = true; };

  const draw = () => {
    const width = plot.clientWidth;
    if (!width) return;
    hideTip();
    const rowed = data.rows.length > 0;
    const xs = data.traces.flatMap((t) => t.x);
    const yRange = data.y.range ?? span(data.traces.flatMap((t) => t.y));
    const yTicks = data.y.ticks.length ? data.y.ticks : niceTicks(yRange, 5);
    const nameWidth = rowed ? textWidth(root, yTicks.map((t) => t[1]), MONOSPACE) : 0;
    const narrow = nameWidth > width * 0.6; // the dots need the room more than the names, which the table has too
    const names = yTicks.map((t) => t[1]);
    const left = rowed ? (narrow ? 0 : nameWidth) + 14 : textWidth(root, names, "12px sans-serif") + 14 + (data.y.title ? 20 : 0);
    const right = textWidth(root, data.right, MONOSPACE) + 16;
    const height = data.height - (data.x.title ? 0 : 16) - (rowed ? 40 : 0);
    const [x0, x1, y0, y1] = [left, width - right, 6, height - AXIS_ROOM];

    const xRange = data.x.range ?? span(xs, 0.01);
    const sx = (value) => x0 + EDGE + (((data.x.log ? Math.log10(value) : value) - xRange[0]) / (xRange[1] - xRange[0])) * (x1 - x0 - 2 * EDGE);
    const sy = (value) => y1 - ((value - yRange[0]) / (yRange[1] - yRange[0])) * (y1 - y0);

    plot.replaceChildren();
    const svg = element(plot, "svg", { width, height, role: rowed && data.pickable ? "listbox" : "img", "aria-label": data.label });
    const grid = element(svg, "g", { "aria-hidden": "true" });
    const ticks = data.x.ticks.length ? data.x.ticks : niceTicks(xRange, Math.max(2, Math.floor((x1 - x0) / 90)));
    for (const [value, text] of ticks) {
      element(grid, "line", { class: "grid", x1: sx(value), x2: sx(value), y1: y0, y2: y1 });
      element(grid, "text", { x: sx(value), y: y1 + 16, "text-anchor": "middle" }, text);
    }
    element(grid, "line", { class: "axis", x1: x0, x2: x1, y1, y2: y1 });
    element(grid, "text", { class: "title", x: (x0 + x1) / 2, y: y1 + 36, "text-anchor": "middle" }, data.x.title);
    if (!rowed) {
      for (const [value, text] of yTicks) {
        element(grid, "line", { class: "grid", x1: x0, x2: x1, y1: sy(value), y2: sy(value) });
        element(grid, "text", { x: x0 - 6, y: sy(value) + 4, "text-anchor": "end" }, text);
      }
      element(grid, "text", { class: "title", transform: `translate(12 ${(y0 + y1) / 2}) rotate(-90)`, "text-anchor": "middle" }, data.y.title);
    }

    const step = rowed ? Math.abs(sy(1) - sy(0)) : 0;
    const rows = data.rows.map((row, i) => {
      const chosen = row.key === data.selected;
      const attributes = { class: "row", role: "option", "aria-selected": chosen, "aria-label": row.spoken, tabindex: -1, "data-row": i };
      const group = element(svg, "g", data.pickable ? attributes : { class: "row", "data-row": i });
      element(group, "rect", { class: "band", x: 1, width: Math.max(0, width - 2), y: sy(row.y) - step / 2, height: step, rx: 3 });
      element(group, "line", { class: "grid", x1: x0, x2: x1, y1: sy(row.y), y2: sy(row.y) });
      if (!narrow) element(group, "text", { class: "name", x: x0 - 8, y: sy(row.y) + 4, "text-anchor": "end" }, yTicks[row.y]?.[1] ?? "");
      element(group, "text", { class: "reading", x: width - 6, y: sy(row.y) + 4, "text-anchor": "end" }, data.right[row.y] ?? "");
      return group;
    });
    if (data.pickable && rows.length) (rows.find((r) => r.getAttribute("aria-selected") === "true") ?? rows[0]).setAttribute("tabindex", 0);

    const marks = element(svg, "g", { class: "marks", "aria-hidden": "true" });
    const spots = [];
    for (const trace of data.traces) {
      if (trace.lines) {
        const inside = (y) => Math.max(y0, Math.min(y1, sy(y)));
        const starts = trace.x.map((_, i) => i).filter((i) => i % 3 === 0 && i + 1 < trace.x.length);
        const ends = starts.map((i) => [sx(trace.x[i]), inside(trace.y[i]), sx(trace.x[i + 1]), inside(trace.y[i + 1])]);
        if (trace.arrow) ends.forEach((line) => drawArrow(marks, trace, line));
        else drawLines(marks, trace, ends);
        continue;
      }
      const bars = trace.plus.map((plus, i) => [sx(trace.x[i] - trace.minus[i]), sy(trace.y[i]), sx(trace.x[i] + plus), sy(trace.y[i])]);
      if (bars.length) drawLines(marks, { ...trace, width: 2, dash: "solid" }, bars);
      trace.x.forEach((value, i) => {
        if (value === null) return;
        const [x, y] = [sx(value), sy(trace.y[i])];
        drawMark(marks, trace, x, y);
        spots.push({ x, y, row: trace.y[i], lines: trace.hover[i] });
      });
    }

    const nearest = (x, y) => {
      const inReach = spots.filter((s) => (rowed ? Math.abs(s.y - y) <= step / 2 : Math.hypot(s.x - x, s.y - y) < 30));
      return inReach.sort((a, b) => Math.hypot(a.x - x, a.y - y) - Math.hypot(b.x - x, b.y - y))[0];
    };
    svg.onpointermove = (event) => {
      const box = svg.getBoundingClientRect();
      const spot = nearest(event.clientX - box.left, event.clientY - box.top);
      rows.forEach((row, i) => row.classList.toggle("near", data.rows[i].y === spot?.row));
      if (spot) showTip(spot.lines, event.clientX - box.left, spot.y);
      else hideTip();
    };
    svg.onpointerleave = () => {
      rows.forEach((row) => row.classList.remove("near"));
      hideTip();
    };
    if (!data.pickable) return;

    const pick = (row) => {
      rows.forEach((r) => { r.setAttribute("aria-selected", r === row); r.setAttribute("tabindex", r === row ? 0 : -1); });
      setTriggerValue("picked", data.rows[Number(row.dataset.row)].key);
    };
    svg.onclick = (event) => {
      const row = event.target.closest?.(".row");
      if (row) { row.focus({ preventScroll: true }); pick(row); }
    };
    svg.addEventListener("focusin", (event) => {
      const at = Number(event.target.dataset?.row);
      const spot = spots.find((s) => s.row === data.rows[at]?.y);
      if (spot && event.target.matches(":focus-visible")) showTip(spot.lines, spot.x, spot.y);
    });
    svg.addEventListener("focusout", hideTip);
    svg.onkeydown = (event) => {
      const at = Number(event.target.dataset?.row);
      if (Number.isNaN(at)) return;
      const goal = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") pick(rows[at]);
      else if (event.key === "Escape") hideTip();
      else if (goal !== undefined && rows[goal]) {
        rows[at].setAttribute("tabindex", -1);
        rows[goal].setAttribute("tabindex", 0);
        rows[goal].focus();
      } else if (goal === undefined) return;
      event.preventDefault(); // arrows and the space bar would scroll the page
    };
    if (root.keepFocus) rows.find((r) => r.getAttribute("tabindex") === "0")?.focus({ preventScroll: true });
  };

  root.keepFocus = hadFocus;
  drawLegend();
  draw();
  root.keepFocus = false;
  // This function runs on every run of the script, the clean-up only on unmounting: an old observer must not go on.
  root.observer?.disconnect();
  let known = plot.clientWidth;
  root.observer = new ResizeObserver(() => {
    if (plot.clientWidth !== known) { known = plot.clientWidth; draw(); }
  });
  root.observer.observe(plot);
  return () => root.observer.disconnect();
}
