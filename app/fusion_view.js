// Shows what Python drew; and, while somebody presents, tells which way the arrow keys turn.
const TURNS = {
  ArrowRight: "next", ArrowDown: "next", PageDown: "next", " ": "next",
  ArrowLeft: "back", ArrowUp: "back", PageUp: "back",
  Home: "first", End: "last", Escape: "leave",
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
  root.away = () => document.removeEventListener("keydown", press);
  return () => root.away();
}
