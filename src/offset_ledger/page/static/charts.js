// Small charts: shapes in SVG and text in HTML, so that the text keeps its size when a chart is stretched.

import { h, svg } from "./dom.js";
import { moment, number, share } from "./format.js";

const WIDTH = 600;
const HEIGHT = 100;

/** The three charts of a pipeline. */
export function charts(points) {
  return [
    chart(
      "Records committed",
      points,
      (p) => p.head + p.again || null,
      number,
      (scale) =>
        bars(points, scale, [
          ["head", "committed"],
          ["again", "again"],
        ]),
      [
        ["committed", "head"],
        ["again", "read again"],
      ],
    ),
    chart(
      "Lag when planned, in records",
      points,
      (p) => p.lag,
      number,
      (scale) => line(points, scale, "lag"),
    ),
    chart(
      "Quarantined share",
      points,
      (p) => p.quarantined_share,
      share,
      (scale) => bars(points, scale, [["quarantined_share", "bad"]]),
    ),
  ];
}

function chart(title, points, value, format, draw, legend = []) {
  const known = points.filter((p) => value(p) !== null);
  const max = Math.max(0, ...known.map(value));
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${title}: maximum ${format(max)}`,
    },
    max > 0 && draw(max * 1.05),
    points.map((p, n) => hit(n, points.length, `${moment(p.at, { seconds: false })}: ${format(value(p))}`)),
  );
  return h(
    "figure.chart.card",
    {},
    h(
      "figcaption",
      {},
      h("span", {}, title),
      legend.map(([name, text]) => h("span.legend", {}, h(`i.dot.${name}`), text)),
      h("b.num", {}, known.length ? `max ${format(max)}` : ""),
    ),
    known.length && max > 0 ? picture : h("div.empty.soft", {}, known.length ? "all zero" : "no batch in this time"),
    h(
      "div.axis.soft",
      {},
      [points[0], points[points.length >> 1], points.at(-1)].map((p) =>
        h("span", {}, p ? moment(p.at, { seconds: false, zone: false }).slice(5) : ""), // the year is in the tooltips
      ),
    ),
  );
}

function bars(points, scale, series) {
  const width = WIDTH / points.length;
  return points.flatMap((p, n) => {
    let y = HEIGHT;
    return series.map(([name, colour]) => {
      const height = p[name] ? Math.max(1.5, (p[name] / scale) * HEIGHT) : 0;
      y -= height;
      return height > 0 && svg(`rect.${colour}`, { x: n * width + width * 0.1, y, width: width * 0.8, height });
    });
  });
}

function line(points, scale, name) {
  const width = WIDTH / points.length;
  const known = points.map((p, n) => [(n + 0.5) * width, p[name]]).filter(([, value]) => value !== null);
  const at = known.map(([x, value]) => [x, HEIGHT - (value / scale) * HEIGHT]);
  const path = at.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  const area = `${at[0][0]},${HEIGHT} ${path} ${at.at(-1)[0]},${HEIGHT}`;
  return [
    svg("polygon.area", { points: area }),
    svg("polyline.line", { points: path }),
    at.map(([x, y]) => svg("path.point", { d: `M${x.toFixed(1)} ${y.toFixed(1)}h0.01` })),
  ];
}

function hit(n, count, text) {
  const width = WIDTH / count;
  return svg("rect.hit", { x: n * width, y: 0, width, height: HEIGHT }, svg("title", {}, text));
}
