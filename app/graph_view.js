// Shows the picture that Python drew, in the arrangement that fits the width at hand, and reports which node is chosen.
const SMALLEST_SCALE = 0.88; // dims are then still 10.5 px high; below, a narrower arrangement takes over
const LARGEST_SCALE = 1.15;

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const root = parentElement.querySelector(".root");
  const picture = root.querySelector(".picture");
  const focused = parentElement.activeElement?.dataset?.node;

  if (root.drawn !== data.svg) {
    picture.innerHTML = data.svg; // built by an XML serializer, every foreign text escaped
    root.drawn = data.svg;
    root.arrangement = -1;
  }
  const svg = picture.querySelector("svg");
  const nodes = [...svg.querySelectorAll("[data-node]")];

  const mark = (chosen) => {
    for (const node of nodes) {
      node.setAttribute("aria-pressed", String(node.dataset.node === chosen));
    }
  };

  const arrange = () => {
    const width = picture.clientWidth;
    if (!width) return;
    const fits = data.layouts.findIndex((layout) => layout.width * SMALLEST_SCALE <= width);
    const number = fits === -1 ? data.layouts.length - 1 : fits;
    if (number === root.arrangement) return;
    root.arrangement = number;
    const layout = data.layouts[number];
    svg.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
    svg.style.maxWidth = `${layout.width * LARGEST_SCALE}px`;
    for (const node of nodes) {
      node.setAttribute("transform", `translate(${layout.at[node.dataset.node].join(" ")})`);
    }
    svg.querySelectorAll(".edges").forEach((group, i) => group.classList.toggle("shown", i === number));
  };

  const choose = (event) => {
    const node = event.target.closest?.("[data-node]");
    if (!node) return;
    event.preventDefault(); // the space bar would scroll the page
    const chosen = node.getAttribute("aria-pressed") === "true" ? null : node.dataset.node;
    mark(chosen); // at once; the answer of the server only confirms it
    setStateValue("node", chosen);
  };
  picture.onclick = choose;
  picture.onkeydown = (event) => {
    if (event.key === "Enter" || event.key === " ") choose(event);
  };

  // A server that was started anew, or that gave this session up meanwhile, knows no fragment of the page: what is
  // chosen in the results would come to nothing. A run of the whole page, from its address, makes them known.
  const app = document.querySelector('[data-testid="stApp"]');
  let connected = true;
  root.connection?.disconnect();
  root.connection = new MutationObserver(() => {
    const before = connected;
    connected = app.dataset.testConnectionState === "CONNECTED";
    if (connected && !before) setStateValue("connected", Date.now());
  });
  if (app) root.connection.observe(app, { attributes: true, attributeFilter: ["data-test-connection-state"] });

  mark(data.selected);
  if (focused) {
    arrange(); // focus scrolls to where the node stands
    nodes.find((node) => node.dataset.node === focused)?.focus();
  }

  // Streamlit calls the clean-up only on unmounting, but this function on every run: an old observer would go on
  // arranging a picture that is no longer there.
  root.observer?.disconnect();
  root.observer = new ResizeObserver(arrange); // also the first time, before anything is painted
  root.observer.observe(picture);
  return () => {
    root.observer.disconnect();
    root.connection.disconnect();
  };
}
