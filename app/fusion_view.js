// Shows what Python drew; and, while somebody presents, tells which way the arrow keys turn.
const TURNS = {
  ArrowRight: "next", ArrowDown: "next", PageDown: "next", " ": "next",
  ArrowLeft: "back", ArrowUp: "back", PageUp: "back",
  Home: "first", End: "last", Escape: "leave",
};

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
  if (!data.listens) return;
  const press = (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !TURNS[event.key]) return;
    event.preventDefault();
    setTriggerValue("turn", TURNS[event.key]);
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
