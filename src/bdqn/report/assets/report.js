// Under the pointer: the values of every line that goes as far, at its nearest point.
for (const chart of document.querySelectorAll("figure.chart[id]")) {
  const svg = chart.querySelector("svg"), readout = chart.querySelector(".readout");
  const { start, end, most, series } = JSON.parse(chart.querySelector("script").textContent);
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cursor.setAttribute("class", "axis");
  cursor.setAttribute("y1", 12);
  cursor.setAttribute("y2", 260);
  cursor.style.display = "none";
  svg.append(cursor);
  const nearest = (xs, x) => xs.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(xs[best] - x) ? i : best), 0);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width - start) / (end - start);
    if (share < 0 || share > 1) return;
    const x = share * most, position = (start + share * (end - start)) * svg.viewBox.baseVal.width;
    cursor.setAttribute("x1", position);
    cursor.setAttribute("x2", position);
    cursor.style.display = "";
    const values = new Map();  // by name, which the lines of several seeds may share
    for (const line of series.filter(({ x: xs }) => xs[0] <= x && x <= xs.at(-1))) {
      const i = nearest(line.x, x), name = line.name.replace(/ \(\d+ seeds?\)$/, "");
      values.set(name, [...(values.get(name) ?? []), line.y[i] + (line.band ? ` (${line.band[i]})` : "")]);
    }
    const parts = [...values].map(([name, found]) => `${name} ${found.join(", ")}`);
    readout.textContent = [Math.round(x).toLocaleString("en"), parts.join(" · ")].filter(Boolean).join(": ");
  });
  svg.addEventListener("pointerleave", () => {
    cursor.style.display = "none";
    readout.textContent = "";
  });
}
