// Shows what Python drew; and, while somebody presents, tells which slide the arrow keys turn to. It is told by number,
// and counted on from the one asked for last: of keys pressed faster than slides are drawn only the last one is heard.
const TURNS = {
  ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1,
  ArrowLeft: -1, ArrowUp: -1, PageUp: -1,
  Home: -Infinity, End: Infinity,
};
const PATIENCE_MS = 3000;

// As large as the slide may be with all of it on the screen; a long table is scrolled.
const LARGEST = 1.8, SMALLEST = 0.9, WIDTH = 900;
const fit = () => {
  const page = document.querySelector("[data-testid=stMainBlockContainer]");
  if (!page) return;
  const most = Math.min(LARGEST, Math.max(1, innerWidth / WIDTH));
  for (let zoom = most; ; zoom -= 0.05) {
    document.documentElement.style.setProperty("--slide-zoom", zoom.toFixed(2));
    if (zoom <= SMALLEST || page.getBoundingClientRect().height <= innerHeight) return;
  }
};

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const root = parentElement.querySelector(".root");
  if (root.drawn !== data.html) {
    root.innerHTML = data.html; // built by an XML serializer, every foreign text escaped
    root.drawn = data.html;
  }
  root.away?.();
  if (!data.listens || root.goal === data.at) root.goal = undefined;
  if (!data.listens) return;
  const press = (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") setTriggerValue("turn", "leave");
    else if (event.key in TURNS) {
      root.goal = Math.min(Math.max((root.goal ?? data.at) + TURNS[event.key], 0), data.last);
      clearTimeout(root.patience);
      root.patience = setTimeout(() => { root.goal = undefined; }, PATIENCE_MS);
      setTriggerValue("turn", root.goal);
    } else return;
    event.preventDefault();
  };
  document.addEventListener("keydown", press);
  window.addEventListener("resize", fit);
  const page = document.querySelector("[data-testid=stMainBlockContainer]");
  const slide = new MutationObserver(() => { clearTimeout(root.soon); root.soon = setTimeout(fit, 60); });
  if (page) slide.observe(page, { childList: true, subtree: true });
  const later = [60, 300, 1000].map((ms) => setTimeout(fit, ms)); // charts are drawn after the page is
  root.away = () => {
    document.removeEventListener("keydown", press);
    window.removeEventListener("resize", fit);
    slide.disconnect();
    [...later, root.soon].forEach(clearTimeout);
  };
  return () => root.away();
}
