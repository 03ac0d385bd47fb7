// Presenting the saved file: one section at a time, arrow keys turn the page.
(() => {
  const slides = [...document.querySelectorAll("body > header, body > section")];
  let at = -1;
  const SMALLEST = 320, MARGINS = 18;
  // Charts as large as the screen: their type and bars too.
  const grow = (chart, large) => {
    chart.small ??= { height: chart._fullLayout.height, widths: chart.data.map((trace) => trace.line?.width) };
    const { height, widths } = chart.small;
    const section = chart.closest("section");
    const beside = [...section.children].filter((one) => !one.contains(chart));
    const taken = beside.reduce((sum, one) => sum + one.offsetHeight + (one.offsetHeight && MARGINS), 0);
    const [type, tall] = large ? [17, Math.max(SMALLEST, innerHeight * 0.94 - taken)] : [12, height];
    for (let box = chart; box.tagName === "DIV"; box = box.parentElement) box.style.height = `${tall}px`;
    Plotly.relayout(chart, {
      autosize: true, // as wide and as tall as its boxes
      "font.size": type, "yaxis.tickfont.size": type, "yaxis2.tickfont.size": type,
    });
    widths.forEach((width, i) => { if (width) Plotly.restyle(chart, { "line.width": width * (large ? 1.6 : 1) }, [i]); });
  };
  const fit = () => document.querySelectorAll(".js-plotly-plot").forEach((chart) => grow(chart, at >= 0));
  const show = (next) => {
    at = next < 0 ? -1 : Math.min(next, slides.length - 1);
    document.body.classList.toggle("presenting", at >= 0);
    slides.forEach((slide, i) => slide.classList.toggle("shown", i === at));
    fit();
    window.scrollTo(0, 0);
  };
  const steps = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1 };
  window.addEventListener("resize", fit); // as when the screen is filled, or turned
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.toLowerCase() === "p") show(at >= 0 ? -1 : 0);
    else if (at < 0) return;
    else if (event.key === "Escape") show(-1);
    else if (event.key === "Home") show(0);
    else if (event.key === "End") show(slides.length - 1);
    else if (steps[event.key]) show(Math.max(0, at + steps[event.key]));
    else return;
    event.preventDefault();
  });
})();
