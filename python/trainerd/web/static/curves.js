// Curves over epochs: points that stay few, and Chart.js in the page's colours. Chart.js draws on a canvas, and makes no markup of texts.
import { make, number as plain } from "./common.js";

const POINTS_MOST = 12000; // of a curve; with more every second one is left out

/* Values of a job's epochs, by the names of metrics.jsonl, which numbers them from 0. An epoch that comes again, from a checkpoint, replaces
 * what came after it. */
export class Epochs {
  constructor() { this.clear(); }
  clear() {
    this.epoch = []; this.seconds = []; this.values = new Map();
    this.stride = 1; this.trained = 0; this.best = null; this.last = null;
  }
  get length() { return this.epoch.length; }

  /* rows: lines of metrics.jsonl. */
  add(rows, lessIsBetter) {
    for (const row of rows) this.#row(row, lessIsBetter);
  }
  #row(row, lessIsBetter) {
    const epoch = row.epoch;
    if (this.last && epoch <= this.last.epoch) this.#cut(epoch);
    this.trained += row.epoch_s ?? 0;
    this.last = row;
    const valid = row.valid_metric ?? null;
    if (valid !== null && (this.best === null || (lessIsBetter ? valid < this.best.valid : valid > this.best.valid)))
      this.best = { epoch, valid, seconds: this.trained, loss: row.loss };
    if (epoch % this.stride) return;
    this.epoch.push(epoch);
    this.seconds.push(this.trained);
    for (const name in row) {
      if (!this.values.has(name)) this.values.set(name, new Array(this.epoch.length - 1).fill(null));
      this.values.get(name).push(typeof row[name] === "number" ? row[name] : null);
    }
    for (const values of this.values.values()) if (values.length < this.epoch.length) values.push(null);
    if (this.epoch.length > POINTS_MOST) this.#thin();
  }
  #thin() {
    this.stride *= 2;
    const kept = (values) => values.filter((_, k) => this.epoch[k] % this.stride === 0);
    for (const [name, values] of this.values) this.values.set(name, kept(values));
    this.seconds = kept(this.seconds);
    this.epoch = kept(this.epoch);
  }
  #cut(epoch) {
    let n = this.epoch.length;
    while (n && this.epoch[n - 1] >= epoch) n--;
    this.epoch.length = this.seconds.length = n;
    for (const values of this.values.values()) values.length = n;
    this.trained = n ? this.seconds[n - 1] : 0;
    if (this.best && this.best.epoch >= epoch) this.best = null;
  }

  /* {x, y} where the value is known; epochs from 1. */
  points(name, x) {
    const values = this.values.get(name) ?? [], at = this[x], first = x === "epoch" ? 1 : 0, points = [];
    for (let k = 0; k < values.length; k++) if (values[k] !== null) points.push({ x: at[k] + first, y: values[k] });
    return points;
  }
}

export const available = () => "Chart" in window;
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const seriesColour = (k) => colour(`c${k % 8}`);

/* Where a chart of times ends, so that the first epoch, which has more to do, and single slow ones do not flatten the others: half more than
 * 98 of 100 of the others' largest values; nowhere, if that has room for all. */
function endOf(series) {
  const others = series[0]?.points.slice(1).map((_, k) => Math.max(...series.map((one) => one.points[k + 1]?.y ?? 0))).sort((a, b) => a - b) ?? [];
  const end = 1.5 * (others[Math.floor(0.98 * (others.length - 1))] ?? Infinity);
  return end > 0 && series.some((one) => one.points.some(({ y }) => y > end)) ? end : undefined;
}

/* A chart in a panel. show(title of x, series, options): series are {label, points, colour (a number), dot, band}; a band lies between this
 * curve and the one before it. Options: logarithmic; format (of a value); apart: values far above the others are counted, not drawn. */
export class LineChart {
  constructor(parent, title) {
    const canvas = make("canvas", { role: "img", ariaLabel: title });
    this.above = make("span", { className: "dim above" });
    this.format = plain;
    this.panel = make("section", { className: "panel" }, make("div", { className: "title" }, make("h2", {}, title), this.above), make("div", { className: "chart" }, canvas));
    parent.append(this.panel);
    const number = { maxRotation: 0, includeBounds: false }, label = (item) => item.dataset.label ? `${item.dataset.label} ${this.format(item.parsed.y)}` : null;
    this.chart = new window.Chart(canvas, {
      type: "line", data: { datasets: [] },
      options: {
        animation: false, parsing: false, normalized: true, maintainAspectRatio: false, spanGaps: true,
        interaction: { mode: "nearest", axis: "x", intersect: false },
        elements: { point: { radius: 0, hitRadius: 6 }, line: { borderWidth: 1.6 } },
        scales: { x: { type: "linear", title: { display: true }, ticks: { ...number } }, y: { type: "linear", ticks: { ...number, callback: (y) => this.#tick(y) } } },
        plugins: { legend: { labels: { boxWidth: 14, filter: (item) => Boolean(item.text) } }, tooltip: { callbacks: { label }, filter: (item) => Boolean(item.dataset.label) }, decimation: { enabled: true, algorithm: "min-max" } },
      },
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#colours());
    this.#colours();
  }
  #tick(y) {
    return this.format(y).replace(/(\.\d*?)0+(?=\D*$)/, "$1").replace(/\.(?=\D*$)/, ""); // without zeros at the end
  }
  show(xTitle, series, { logarithmic = false, format = plain, apart = false } = {}) {
    this.format = format;
    const sets = this.chart.data.datasets;
    sets.length = Math.min(sets.length, series.length);
    series.forEach((one, k) => {
      if (!sets[k] || Object.getOwnPropertyDescriptor(sets[k], "data")?.writable === false) sets[k] = { label: "" }; // Chart.js 3: thinned once, then read-only
      sets[k].data = one.points;
      Object.assign(sets[k], { label: one.label, tone: one.colour, pointRadius: one.dot ? 5 : one.points.length === 1 ? 2.5 : 0, fill: one.band ? "-1" : false,
                               borderWidth: one.thin ? 0 : 1.6, bandTone: one.band });
    });
    const scales = this.chart.options.scales;
    const ends = series.flatMap(({ points }) => points.length ? [points[0].x, points.at(-1).x] : []), [least, most] = [Math.min(...ends), Math.max(...ends)];
    [scales.x.min, scales.x.max] = least < most ? [least, most] : []; // the data's, with round ticks between them
    scales.x.ticks.precision = xTitle === "epoch" ? 0 : undefined;
    scales.x.title.text = xTitle;
    scales.y.type = logarithmic ? "logarithmic" : "linear";
    scales.y.max = apart ? endOf(series) : undefined;
    const n = scales.y.max ? series[0].points.filter(({ y }) => y > scales.y.max).length : 0;
    this.above.textContent = !n ? "" : n === 1 && series[0].points[0].y > scales.y.max ? `first: ${format(series[0].points[0].y)}, above the chart` : `${n} above the chart`;
    this.#paint();
    this.chart.update("none");
  }
  #paint() {
    for (const set of this.chart.data.datasets) {
      set.borderColor = set.pointBackgroundColor = seriesColour(set.tone);
      set.backgroundColor = set.bandTone ? `${seriesColour(set.tone)}33` : seriesColour(set.tone);
    }
  }
  #colours() {
    const { scales, plugins } = this.chart.options;
    for (const scale of Object.values(scales)) {
      scale.grid = { color: colour("line") };
      scale.ticks.color = colour("dim");
      if (scale.title) scale.title.color = colour("dim");
    }
    plugins.legend.labels.color = colour("text");
    this.#paint();
    this.chart.update("none");
  }
}
