// Tooltips: the name of a series and the words of each of its marks.
for (const series of document.querySelectorAll("g[data-n]")) {
  for (const mark of series.querySelectorAll("use[data-t]")) {
    const title = document.createElementNS(series.namespaceURI, "title");
    title.textContent = series.dataset.n + mark.dataset.t;
    mark.append(title);
  }
}
// Shows one allocator alone in all figures and tables of a section while its name is pointed at; a click keeps it.
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
