// Gives each mark of a series a tooltip: the name of the series (data-n) and the mark's own words (data-t).
for (const series of document.querySelectorAll("g[data-n]")) {
  for (const mark of series.querySelectorAll("use[data-t]")) {
    const title = document.createElementNS(series.namespaceURI, "title");
    title.textContent = series.dataset.n + mark.dataset.t;
    mark.append(title);
  }
}
// While the pointer is on the name of an allocator, the figures and tables of its section show only that allocator. A click keeps them so until the next click.
for (const section of document.querySelectorAll("section")) {
  const chips = section.querySelectorAll("button.chip");
  let kept = null;
  const show = (name) => {
    section.classList.toggle("focused", name !== null);
    for (const part of section.querySelectorAll(".on")) part.classList.remove("on");
    if (name === null) return;
    for (const part of section.querySelectorAll(`.s-${name}`)) part.classList.add("on");
  };
  for (const chip of chips) {
    const name = chip.dataset.allocator;
    chip.addEventListener("mouseenter", () => show(name));
    chip.addEventListener("mouseleave", () => show(kept));
    chip.addEventListener("click", () => {
      kept = kept === name ? null : name;
      for (const other of chips) other.setAttribute("aria-pressed", String(other.dataset.allocator === kept));
      show(kept);
    });
  }
}
