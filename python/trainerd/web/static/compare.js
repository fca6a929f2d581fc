// Runs of a group: a line for each setting, curves with bands over seeds, and the settings as parallel coordinates.
import { attempt, get, make, metric, missing, number, one, put, say, seconds, write } from "./common.js";
import { LineChart, available } from "./curves.js";

const SETTINGS_MOST = 8; // with curves
const SVG = "http://www.w3.org/2000/svg"; // a name of XML, which no browser opens
let compared = null, runs = new Map(), chart = null;

const spread = (of, format) => missing(of?.mean) ? "" : of.n > 1 && !missing(of.std) ? `${format(of.mean)} ± ${format(of.std)}` : format(of.mean);
const text = (value) => missing(value) ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
const keysOf = (lines) => [...new Set(lines.flatMap((line) => Object.keys(line.settings)))];

function showTable() {
  const lines = compared.settings, keys = keysOf(lines), share = (x) => metric(x, compared.metric);
  put(one("heads"), make("tr", {}, ...keys.map((key) => make("th", { scope: "col" }, key)),
                         ...["runs", "valid", "test", "best epoch", "time"].map((name) => make("th", { scope: "col", className: "number" }, name)), make("th", { scope: "col" }, "jobs")));
  put(one("lines"), ...lines.map((line) => make("tr", {}, ...keys.map((key) => make("td", {}, text(line.settings[key]))),
    ...[line.done === line.runs.length ? String(line.done) : `${line.done} of ${line.runs.length}`, spread(line.valid, share), spread(line.test, share),
        spread(line.best_epoch, number), spread(line.seconds, seconds)].map((cell) => make("td", { className: "number" }, cell)),
    make("td", {}, ...line.runs.filter((run) => !missing(run.job)).flatMap((run) => [make("a", { href: `job?job=${run.job}`, title: run.state }, String(run.job)), " "])))));
  write(one("summary"), `${lines.length} settings, ${lines.reduce((n, line) => n + line.runs.length, 0)} runs, by ${compared.metric ?? "metric"}`);
}

// --- curves ---

/* Mean and deviation at each epoch that all these runs have. */
function bandOf(columns, name) {
  const at = new Map();
  for (const column of columns) column.epoch.forEach((epoch, k) => {
    const value = column[name][k];
    if (typeof value === "number") at.has(epoch) ? at.get(epoch).push(value) : at.set(epoch, [value]);
  });
  const full = [...at].filter(([, values]) => values.length === columns.length).sort((a, b) => a[0] - b[0]);
  return full.map(([epoch, values]) => {
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const deviation = values.length > 1 ? Math.sqrt(values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (values.length - 1)) : 0;
    return { epoch, mean, deviation };
  });
}
function showCurves() {
  if (!available() || !compared) return;
  chart ??= new LineChart(one("curves"), "curves");
  const name = one("curve").value, keys = keysOf(compared.settings);
  const series = compared.settings.slice(0, SETTINGS_MOST).flatMap((line, k) => {
    const columns = line.runs.map((run) => runs.get(run.job)).filter((one) => one?.epoch.length);
    const band = columns.length ? bandOf(columns, name) : [];
    const label = keys.map((key) => `${key.split(".").at(-1)} ${text(line.settings[key])}`).join(", ") || `${columns.length} runs`;
    const side = (sign) => band.map((at) => ({ x: at.epoch, y: at.mean + sign * at.deviation }));
    const mean = { label, points: side(0), colour: k };
    return columns.length > 1 ? [{ label: "", points: side(1), colour: k, thin: true }, { label: "", points: side(-1), colour: k, band: true, thin: true }, mean] : band.length ? [mean] : [];
  });
  chart.panel.classList.add("wide");
  chart.show("epoch", series);
}

// --- parallel coordinates ---

function svg(tag, given, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
/* An axis for each key, and one for the valid metric: numbers by size, other values in the order of their names. */
function showParallel() {
  const lines = compared.settings.filter((line) => !missing(line.valid?.mean ?? line.test?.mean)), keys = keysOf(lines);
  one("parallel").hidden = keys.length < 1 || lines.length < 2;
  if (one("parallel").hidden) return;
  const result = (line) => line.valid?.mean ?? line.test.mean;
  const axes = [...keys.map((key) => [key, (line) => line.settings[key], text]), [compared.metric ?? "metric", result, (x) => metric(x, compared.metric)]];
  const width = Math.max(500, 190 * axes.length), height = 300, top = 40, bottom = 270, at = (k) => 80 + (k * (width - 160)) / (axes.length - 1);
  const heights = axes.map(([, of]) => {
    const values = [...new Set(lines.map(of))], numbers = values.every((x) => typeof x === "number");
    if (!numbers) values.sort((a, b) => text(a) < text(b) ? -1 : 1);
    // Learning rates and sizes go by powers.
    const logarithmic = numbers && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) >= 8, scale = (x) => logarithmic ? Math.log(x) : x;
    const low = numbers ? Math.min(...values.map(scale)) : 0, high = numbers ? Math.max(...values.map(scale)) : values.length - 1;
    return (x) => bottom - (high > low ? ((numbers ? scale(x) : values.indexOf(x)) - low) / (high - low) : 0.5) * (bottom - top);
  });
  const order = [...lines].sort((a, b) => (result(b) - result(a)) * (compared.less_is_better ? -1 : 1));
  const drawn = order.map((line, k) => {
    const path = svg("polyline", { points: axes.map(([, of], j) => `${at(j)},${heights[j](of(line))}`).join(" "), fill: "none", "stroke-width": k ? 1.5 : 3 },
                     svg("title", {}, axes.map(([name, of, format]) => `${name} ${format(of(line))}`).join(", ")));
    path.style.stroke = k ? "var(--c0)" : "var(--c1)";
    path.style.opacity = k ? 0.25 + 0.6 * (1 - k / order.length) : 1;
    return path;
  }).reverse();
  const marks = axes.flatMap(([name, of, format], j) => {
    const places = [];
    const ticks = [...new Set(lines.map(of))].map((x) => [heights[j](x), format(x)]).sort((a, b) => a[0] - b[0])
      .filter(([y]) => !places.some((other) => Math.abs(other - y) < 14) && places.push(y));
    return [svg("line", { x1: at(j), x2: at(j), y1: top, y2: bottom }), svg("text", { x: at(j), y: 20, "text-anchor": "middle", "font-weight": 600 }, name),
            ...ticks.map(([y, label]) => svg("text", { x: at(j) + 6, y: y + 4 }, label))];
  });
  put(one("axes"), svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "settings and their valid metric" }, ...drawn, ...marks));
}

const show = attempt(async () => {
  const group = one("group").value.trim();
  if (!group) return;
  history.replaceState(null, "", `compare?group=${encodeURIComponent(group)}`);
  document.title = `${group} · compare · trainerd`;
  compared = await get("compare", { group });
  showTable();
  showParallel();
  const wanted = compared.settings.slice(0, SETTINGS_MOST).flatMap((line) => line.runs.map((run) => run.job)).filter((job) => !missing(job));
  const found = await Promise.all(wanted.map(async (job) => [job, await get("epochs", { job })]));
  runs = new Map(found);
  showCurves();
});

async function begin() {
  if (!available()) say("no curves: Chart.js is missing, apt install libjs-chart.js");
  one("form").addEventListener("submit", (event) => { event.preventDefault(); show(); });
  one("curve").addEventListener("change", showCurves);
  one("group").value = new URLSearchParams(location.search).get("group") ?? "";
  await show();
  put(one("groups"), ...(await get("groups")).map((value) => make("option", { value })));
}
attempt(begin)();
