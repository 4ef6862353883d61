"use strict";
// Draws the figures of the page. They are data only: no text of a run is ever run or read as markup.
const figures = JSON.parse(document.getElementById("figures").textContent);
const axis = { gridcolor: "#eef0f3", zerolinecolor: "#d9dde3", linecolor: "#d9dde3", automargin: true, title: { standoff: 8 } };
const layout = {
  font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", size: 11, color: "#4b5563" },
  height: 270,
  margin: { l: 48, r: 16, t: 30, b: 40 },
  paper_bgcolor: "rgba(0,0,0,0)",
  plot_bgcolor: "rgba(0,0,0,0)",
  hovermode: "x unified",
  hoverlabel: { bgcolor: "#ffffff", bordercolor: "#d9dde3", font: { size: 11 } },
  legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
};
const merged = (own, lines) => {
  const all = { ...layout, ...own };
  for (const name of ["xaxis", "yaxis", "yaxis2"]) {
    if (own[name]) all[name] = { ...axis, ...own[name], title: { ...axis.title, ...own[name].title } };
  }
  if (lines > 6) {  // beside the plot: above it, they would take half of its height
    all.legend = { ...layout.legend, orientation: "v", x: 1.02, y: 1, yanchor: "top", font: { size: 10 } };
    all.margin = { ...layout.margin, t: 10 };
  }
  if (own.yaxis2) all.margin = { ...all.margin, r: 48 };
  return all;
};
const drawn = [...document.querySelectorAll(".plot")].map((place) => {
  const figure = figures[Number(place.dataset.figure)];
  return Plotly.newPlot(place, figure.data, merged(figure.layout, figure.data.filter((trace) => trace.showlegend !== false).length), { responsive: true, displaylogo: false, displayModeBar: false });
});
Promise.all(drawn).then(() => document.body.setAttribute("data-drawn", String(drawn.length)));
// a mark on the time line opens its finding
for (const mark of document.querySelectorAll("a.mark")) {
  mark.addEventListener("click", () => { document.querySelector(mark.getAttribute("href")).open = true; });
}
