// Draws each table of a figure as a chart. The first column is a day, the others are numbers; the table stays below it.
"use strict";
(() => {
  const COLOURS = ["--accent", "--warn", "--bad"];
  const number = (cell) => (cell.dataset.value === "" ? null : Number(cell.dataset.value));

  function draw(figure) {
    if (figure.querySelector(".uplot") || typeof uPlot === "undefined") return;
    const rows = [...figure.querySelectorAll("tbody tr")].map((row) => [...row.cells]);
    if (rows.length < 2) return;
    const names = [...figure.querySelectorAll("thead th")].slice(1).map((cell) => cell.textContent);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => { const probe = document.createElement("span"); probe.style.color = `var(${name})`; figure.append(probe); const found = getComputedStyle(probe).color; probe.remove(); return found; };
    const days = rows.map((cells) => Date.parse(`${cells[0].textContent.trim()}T12:00:00Z`) / 1000);
    const data = [days, ...names.map((_, at) => rows.map((cells) => number(cells[at + 1])))];
    const shortDay = (seconds) => new Date(seconds * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: `12px ${style.fontFamily}` };
    const place = figure.querySelector(".chart");
    const options = {
      width: place.clientWidth, height: 180, legend: { show: names.length > 1 }, cursor: { y: false },
      series: [{ label: "Day", value: "{YYYY}-{MM}-{DD}" }, ...names.map((name, at) => ({ label: name, stroke: colour(COLOURS[at % 3]), width: 2, points: { size: 6 }, spanGaps: true }))],
      axes: [{ ...axis, values: (_u, ticks) => ticks.map(shortDay), incrs: [86400, 2 * 86400, 7 * 86400], size: 32 }, { ...axis, size: 64 }],
      scales: figure.dataset.chart === "share" ? { y: { range: [0, 100] } } : { y: { range: (_u, _low, high) => [0, high || 1] } },
    };
    const plot = new uPlot(options, data, place);
    new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 180 })).observe(place);
  }

  const all = () => document.querySelectorAll("figure[data-chart]").forEach(draw);
  document.addEventListener("htmx:load", all);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", all); else all();
})();
