// Runs of a group, or any jobs: a line for each setting, curves with bands over seeds, and the settings as parallel coordinates. A setting has one
// colour in all three.
import { attempt, get, isShare, make, metric, missing, number, one, put, say, seconds, write } from "./common.js";
import { LineChart, available } from "./curves.js";

const SETTINGS_MOST = 8; // with curves and colours
const NARROW = 600; // below it axes are one under another
const SVG = "http://www.w3.org/2000/svg"; // a name of XML, which no browser opens
let compared = null, runs = new Map(), chart = null, asked = 0;

const spread = (of, format) => missing(of?.mean) ? "" : of.n > 1 && !missing(of.std) ? `${format(of.mean).replace(/ %$/, "")} ± ${format(of.std)}` : format(of.mean);
const text = (value) => missing(value) ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
const toneOf = (line) => { const k = compared.settings.indexOf(line); return k < SETTINGS_MOST ? `var(--c${k})` : "var(--dim)"; };
const keysOf = (lines) => [...new Set(lines.flatMap((line) => Object.keys(line.settings)))];

function showTable() {
  const lines = compared.settings, keys = keysOf(lines), share = (x) => metric(x, compared.metric);
  const swatch = (line) => {
    const made = make("span", { className: "swatch" });
    made.style.background = toneOf(line);
    return make("td", {}, made);
  };
  put(one("heads"), make("tr", {}, make("td"), ...keys.map((key) => make("th", { scope: "col" }, key)),
                         ...["runs", "valid", "test", "best epoch", "time"].map((name) => make("th", { scope: "col", className: "number" }, name)), make("th", { scope: "col" }, "jobs")));
  put(one("lines"), ...lines.map((line) => make("tr", {}, swatch(line), ...keys.map((key) => make("td", {}, text(line.settings[key]))),
    ...[line.done === line.runs.length ? String(line.done) : `${line.done} of ${line.runs.length}`, spread(line.valid, share), spread(line.test, share),
        spread(line.best_epoch, (x) => number(Number(x.toPrecision(3)))), spread(line.seconds, seconds)].map((cell) => make("td", { className: "number" }, cell)),
    make("td", {}, ...line.runs.filter((run) => !missing(run.job)).flatMap((run) => [make("a", { href: `job?job=${run.job}`, title: run.state }, String(run.job)), " "])))));
}

const summary = () => `${compared.settings.length} settings, ${compared.settings.reduce((n, line) => n + line.runs.length, 0)} runs, by ${compared.metric ?? "metric"}`;

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
  const name = one("curve").value, keys = keysOf(compared.settings), isOfShares = name !== "loss" && isShare(compared.metric);
  const within = (y) => isOfShares ? Math.min(1, Math.max(0, y)) : y;
  const series = compared.settings.slice(0, SETTINGS_MOST).flatMap((line, k) => {
    const columns = line.runs.map((run) => runs.get(run.job)).filter((one) => one?.epoch.length);
    const band = columns.length ? bandOf(columns, name) : [];
    const label = keys.map((key) => `${key.split(".").at(-1)} ${text(line.settings[key])}`).join(", ") || `${columns.length} runs`;
    const side = (sign) => band.map((at) => ({ x: at.epoch + 1, y: within(at.mean + sign * at.deviation) }));
    const mean = { label, points: side(0), colour: k };
    return columns.length > 1 ? [{ label: "", points: side(1), colour: k, thin: true }, { label: "", points: side(-1), colour: k, band: true, thin: true }, mean] : band.length ? [mean] : [];
  });
  chart.panel.classList.add("wide");
  chart.show("epoch", series, { format: isOfShares ? (y) => metric(y, compared.metric) : number });
}

// --- parallel coordinates ---

function svg(tag, given, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
/* Where a value of an axis is, from 0 to 1: numbers by size, other values in the order of their names. */
function scaleOf(values) {
  const numbers = values.every((x) => typeof x === "number");
  if (!numbers) values.sort((a, b) => text(a) < text(b) ? -1 : 1);
  // Learning rates and sizes go by powers.
  const logarithmic = numbers && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) >= 8, scale = (x) => logarithmic ? Math.log(x) : x;
  const low = numbers ? Math.min(...values.map(scale)) : 0, high = numbers ? Math.max(...values.map(scale)) : values.length - 1;
  return (x) => high > low ? ((numbers ? scale(x) : values.indexOf(x)) - low) / (high - low) : 0.5;
}
/* An axis for each key, and one for the valid metric, over the whole width: side by side, or one under another where that is narrow. */
function showParallel() {
  const lines = compared.settings.filter((line) => !missing(line.valid?.mean ?? line.test?.mean)), keys = keysOf(lines);
  one("parallel").hidden = keys.length < 1 || lines.length < 2;
  if (one("parallel").hidden) return;
  const result = (line) => line.valid?.mean ?? line.test.mean, width = one("axes").clientWidth, isNarrow = width < NARROW;
  const axes = [...keys.map((key) => [key, (line) => line.settings[key], text]), [compared.metric ?? "metric", result, (x) => metric(x, compared.metric)]]
    .map(([name, of, format]) => ({ name, of, format, scale: scaleOf([...new Set(lines.map(of))]) }));
  const [from, to] = isNarrow ? [12, width - 56] : [270, 44], height = isNarrow ? 70 * axes.length : 290;
  const along = (k) => isNarrow ? 34 + 70 * k : 12 + (k * (width - 100)) / (axes.length - 1);
  const across = (axis, x) => from + axis.scale(x) * (to - from);
  const point = (k, y) => isNarrow ? [y, along(k)] : [along(k), y];
  const paths = lines.map((line, k) => {
    const path = svg("polyline", { points: axes.map((axis, j) => point(j, across(axis, axis.of(line))).join()).join(" "), fill: "none", "stroke-width": k ? 1.6 : 3.2 },
                     svg("title", {}, axes.map(({ name, of, format }) => `${name} ${format(of(line))}`).join(", ")));
    path.style.stroke = toneOf(line);
    path.style.opacity = compared.settings.indexOf(line) < SETTINGS_MOST ? 1 : 0.35;
    return path;
  }).reverse();
  const marks = axes.flatMap((axis, j) => {
    const places = [], apart = isNarrow ? 56 : 16, ends = [...point(j, from), ...point(j, to)];
    const ticks = [...new Set(lines.map(axis.of))].map((x) => [across(axis, x), axis.format(x)]).sort((a, b) => a[0] - b[0])
      .filter(([y]) => !places.some((other) => Math.abs(other - y) < apart) && places.push(y));
    const label = ([y, words]) => isNarrow ? svg("text", { x: y, y: along(j) + 16 }, words) : svg("text", { x: along(j) + 6, y: y + 4 }, words);
    return [svg("line", { x1: ends[0], y1: ends[1], x2: ends[2], y2: ends[3] }),
            svg("text", { x: isNarrow ? 12 : along(j), y: isNarrow ? along(j) - 12 : 18, class: "axis" }, axis.name), ...ticks.map(label)];
  });
  put(one("axes"), svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "settings and their valid metric" }, ...paths, ...marks));
}

/* What is to be compared: numbers of jobs, with commas or blanks, or else a group. */
function queryOf(words) {
  return /^[\d\s,]+$/.test(words) && /\d/.test(words) ? { jobs: words.match(/\d+/g).join() } : { group: words };
}
const show = attempt(async (query) => {
  const mine = ++asked, name = query.group ?? `jobs ${query.jobs}`;
  history.replaceState(null, "", `compare?${new URLSearchParams(query)}`);
  document.title = `${name} · compare · trainerd`;
  one("anyway").hidden = one("known").hidden = true;
  write(one("summary"), "comparing …");
  try {
    const found = await get("compare", query);
    if (mine !== asked) return;
    compared = found;
    one("known").hidden = false;
    showTable();
    showParallel();
    const wanted = compared.settings.slice(0, SETTINGS_MOST).flatMap((line) => line.runs.map((run) => run.job)).filter((job) => !missing(job));
    let n = 0;
    const said = () => { if (mine === asked) write(one("summary"), n < wanted.length ? `${summary()}; curves of ${n} of ${wanted.length} runs …` : summary()); };
    said();
    const loaded = await Promise.all(wanted.map(async (job) => { const columns = await get("epochs", { job }); n++; said(); return [job, columns]; }));
    if (mine !== asked) return;
    runs = new Map(loaded);
    showCurves();
  } catch (error) {
    if (mine !== asked) return;
    if (one("known").hidden) write(one("summary"), "");
    one("anyway").hidden = !error.message.includes("--all");
    throw error;
  }
});

async function begin() {
  if (!available()) say("no curves: Chart.js is missing, apt install libjs-chart.js");
  const given = new URLSearchParams(location.search);
  const typed = (more = {}) => { const words = one("runs").value.trim(); if (words) show({ ...queryOf(words), ...more }); };
  one("form").addEventListener("submit", (event) => { event.preventDefault(); typed(); });
  one("anyway").addEventListener("click", () => typed({ all: 1 }));
  one("curve").addEventListener("change", showCurves);
  let width = 0;
  new ResizeObserver(() => { if (compared && one("axes").clientWidth !== width) { width = one("axes").clientWidth; showParallel(); } }).observe(one("axes"));
  one("runs").value = given.get("group") ?? given.get("jobs") ?? "";
  if (given.has("group") || given.has("jobs")) await show(Object.fromEntries(given));
  put(one("groups"), ...(await get("groups")).map((value) => make("option", { value })));
}
attempt(begin)();
