// One job: what it is, its curves as they come, memory and traffic, its log and files, and what may be done with it.
import { ENDED, attempt, background, bytes, get, isShare, lessIsBetter, listen, make, metric, missing, number, one, post, put, say, seconds, stateOf, when, write } from "./common.js";
import { Epochs, LineChart, available, colour } from "./curves.js";

const DRAW_MS = 400;
const LOG_LETTERS_MOST = 400000;
const CLASSES_MOST = 40; // of a confusion matrix
const FAILURE_LINES = 12; // of the coordinator's log
const id = Number(new URLSearchParams(location.search).get("job"));
const epochs = new Epochs();
const charts = new Map(); // of a title
let job = {}, shown = {}, drawing = null, drawnAt = -Infinity, events = null, ofCoordinator = "", workersShown = "";

// --- facts ---

const facts = (list, pairs) => put(list, ...pairs.filter(([, value]) => !missing(value) && value !== "")
  .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
const part = (value, of) => missing(value) ? "" : missing(of) || !of ? bytes(value) : `${bytes(value)} of ${bytes(of)} planned`;

const progressText = () => job.epochs ? `epoch ${job.epoch} of ${job.epochs}${ENDED.includes(job.state) || missing(job.seconds_left) ? "" : `, ${seconds(job.seconds_left)} left`}` : "";

function showFailure() {
  one("failure").hidden = job.state !== "FAILED";
  write(one("failure-text"), `Failed: ${job.reason_text ?? "for no known reason"}`);
  one("failure-more").hidden = !ofCoordinator;
  write(one("failure-log"), ofCoordinator.trimEnd().split("\n").slice(-FAILURE_LINES).join("\n"));
}

/* A number that the user typed stays until the job has as many. */
function showWorkers() {
  const place = one("workers"), now = String(job.workers ?? "");
  if (place.value === workersShown || place.value === now) place.value = workersShown = now;
}

function showJob() {
  document.title = `${job.name} · ${job.state?.toLowerCase()} · trainerd`;
  write(one("title"), `${job.id} · ${job.name}`);
  one("state").className = `state ${stateOf(job)}`;
  write(one("state"), stateOf(job));
  one("state").title = job.reason_text ?? "";
  write(one("progress"), progressText());
  if (!epochs.length) write(one("last"), job.epoch ? "its epochs are being read" : "no epoch yet");
  facts(one("facts"), [
    ["owner", job.owner], ["reason", job.state === "FAILED" ? "" : job.reason_text], ["position", missing(job.position) ? "" : String(job.position)],
    ["group", job.group && make("a", { href: `compare?group=${encodeURIComponent(job.group)}` }, job.group)], ["tags", (job.tags ?? []).join(", ")],
    ["workers", `${job.workers ?? ""}${missing(job.parts) ? "" : `, ${job.parts} parts`}`], ["GPUs", (job.gpus_held ?? []).join(", ")],
    ["memory", part(job.memory_measured || null, job.memory) || (job.memory ? `${bytes(job.memory)} planned` : "")],
    ["best valid", metric(job.best_valid_metric, job.metric)], ["its test", metric(job.best_test_metric, job.metric)],
    ["submitted", when(job.submitted_at)], ["started", when(job.started_at)], ["ended", when(job.ended_at)], ["ran", job.ran_s ? seconds(job.ran_s) : ""],
    ["attempt", job.attempt ? `${job.attempt}, ${job.restarts} of ${job.max_restarts} restarts` : ""],
    ["exit code", missing(job.exit_code) ? "" : String(job.exit_code)], ["folder", shown.folder], ["output", shown.output],
  ]);
  const ended = ENDED.includes(job.state);
  showFailure();
  one("cancel").disabled = ended || stateOf(job) === "CANCELLING";
  one("resume").disabled = !["FAILED", "CANCELLED"].includes(job.state);
  one("checkpoint").disabled = job.state !== "RUNNING";
  one("scale").disabled = one("workers").disabled = job.state === "SUCCEEDED";
  one("again").hidden = one("known").hidden = false;
  showWorkers();
  const ranks = job.workers ?? 0, select = one("rank");
  if (select.options.length !== ranks + 1) {
    put(select, make("option", { value: -1 }, "coordinator"), ...Array.from({ length: ranks }, (_, r) => make("option", { value: r }, `worker ${r}`)));
  }
}

async function showAll() {
  shown = await get("job", { job: id });
  job = shown.job;
  showJob();
  write(one("config"), shown.config + (shown.set?.length ? `\n# with\n${shown.set.map((set) => `# --set ${set}`).join("\n")}\n` : ""));
  put(one("history"), ...(shown.history ?? []).map((at) => make("li", {}, `${when(at.at)} `, make("span", { className: `state ${at.state}` }, at.state),
                                                                at.text ? ` ${at.text}` : "", at.attempt ? ` (attempt ${at.attempt})` : "")));
  put(one("files"), ...shown.files.map((file) => make("li", {}, make("a", { href: `api/file?${new URLSearchParams({ job: id, name: file.name })}` }, file.name), ` ${bytes(file.bytes)}`)));
  if (!shown.files.length) put(one("files"), make("li", { className: "dim" }, "none on this machine"));
  showPanels();
}

// --- tables ---

function table(title, heads, lines, wide = false) {
  const row = (tag, cells) => make("tr", {}, ...cells.map((cell, k) => make(tag, k ? { className: "number" } : {}, cell ?? "")));
  return make("section", { className: wide ? "panel wide" : "panel" }, make("h2", {}, title),
              make("div", { className: "scroll" }, make("table", {}, make("thead", {}, row("th", heads)), make("tbody", {}, ...lines.map((line) => row("td", line))))));
}
function filled(text, share) {
  const fill = make("div");
  fill.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
  return make("div", { className: "fill" }, fill, make("span", {}, text));
}

function memoryTable(workers) {
  const planned = workers.map((worker) => worker.planned), measured = workers.map((worker) => worker.measured);
  const sum = (of, name) => of.reduce((total, one) => total + (one?.[name] ?? 0), 0);
  const most = Math.max(1, ...Object.keys(planned[0]).filter((name) => name !== "all").map((name) => sum(planned, name)));
  return table(`Memory of ${workers.length} workers`, ["class", "planned", "measured"], Object.keys(planned[0]).map((name) =>
    [name, filled(bytes(sum(planned, name)), name === "all" ? 0 : sum(planned, name) / most), filled(bytes(sum(measured, name)), name === "all" ? 0 : sum(measured, name) / most)]));
}
function layerTable(traffic) {
  const layers = (of) => of?.layers ?? [], lines = layers(traffic.measured).map((layer, k) => {
    const plan = layers(traffic.planned)[k];
    return [`${layer.aggregate}, op ${layer.op}`, ...["forward", "backward", "evaluate"].flatMap((way) => [bytes(layer[way]), bytes(plan?.[way])])];
  });
  return table("Traffic of an epoch by layer", ["layer", "forward", "planned", "backward", "planned", "evaluate", "planned"],
               [...lines, ["sums over parts", bytes(traffic.measured.reduce), bytes(traffic.planned.reduce), "", "", "", ""]], true);
}
function heat(cell, share) {
  cell.style.background = colour("accent") + Math.round(115 * share).toString(16).padStart(2, "0"); // of 255: texts keep their contrast
  return cell;
}
function matrix(title, corner, across, down, value, format) {
  const all = down.map((_, i) => across.map((__, j) => value(i, j))), most = Math.max(1e-9, ...all.flat());
  return make("section", { className: "panel wide" }, make("h2", {}, title), make("div", { className: "scroll" }, make("table", { className: "matrix" },
    make("thead", {}, make("tr", {}, make("th", {}, corner), ...across.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...all.map((line, i) => make("tr", {}, make("th", { scope: "row" }, down[i]), ...line.map((x) => heat(make("td", {}, format(x)), x / most))))))));
}
function pairMatrix(pairs) {
  const n = 1 + Math.max(...pairs.flatMap((pair) => [pair.to, pair.from]));
  const sent = Array.from({ length: n }, () => new Array(n).fill(0)), sum = (list) => list.reduce((a, b) => a + b, 0);
  for (const pair of pairs) sent[pair.from][pair.to] += sum(pair.forward) + sum(pair.backward) + sum(pair.evaluate) + pair.reduce + pair.reduce_evaluate;
  const names = sent.map((_, k) => `worker ${k}`);
  return matrix("Traffic of an epoch from worker to worker", "from \\ to", names, names, (i, j) => sent[i][j], (x) => x ? bytes(x) : "");
}
function confusionMatrix(confusion, names) {
  const n = confusion.matrix.length, texts = confusion.matrix.map((_, k) => names?.[k] ?? String(k));
  if (n > CLASSES_MOST) return make("section", { className: "panel wide" }, make("h2", {}, "Confusion"), `${n} classes: the matrix is in result.json`);
  return matrix(`Confusion of the ${confusion.split} nodes`, "class \\ predicted", texts, texts, (i, j) => confusion.matrix[i][j], (x) => x ? String(x) : "");
}
function showPanels() {
  const result = shown.result ?? {}, panels = [];
  if (result.memory?.length) panels.push(memoryTable(result.memory));
  if (result.traffic?.measured?.layers) panels.push(layerTable(result.traffic));
  if (result.traffic?.measured?.pairs?.length) panels.push(pairMatrix(result.traffic.measured.pairs));
  if (result.confusion?.matrix) panels.push(confusionMatrix(result.confusion, result.dataset?.class_names));
  put(one("panels"), ...panels);
}

// --- epochs ---

const PHASES = [["compute", "compute_s"], ["pack", "pack_s"], ["wait", "wait_s"], ["evaluate", "evaluate_s"]];
function showLast() {
  const last = epochs.last, layers = last.bytes_layers ?? [], each = last.seconds_workers ?? [];
  const lines = each.length ? each.map((times, rank) => [String(rank), ...times]) : [["the most of any", ...PHASES.map(([, key]) => last[key])]];
  const times = table("", ["worker", ...PHASES.map(([name]) => name)],
                      lines.map(([name, ...of]) => [name, ...of.map((s) => missing(s) ? "" : filled(seconds(s), s / last.epoch_s))]));
  const traffic = layers.length ? table("", ["layer that sends", "forward", "backward", "evaluate"], layers.map((layer, k) => [String(k + 1), ...layer.map((x) => bytes(x))])) : null;
  one("last").className = "";
  put(one("last"), ...[times, traffic].filter(Boolean).flatMap((panel) => [...panel.children].slice(1)),
      make("p", { className: "dim" }, `epoch ${last.epoch + 1}: ${seconds(last.epoch_s)}, sent ${bytes(last.bytes_sent)}, received ${bytes(last.bytes_received)}; learning rate ${number(last.lr)}`));
}

function chart(title) {
  if (!charts.has(title)) charts.set(title, new LineChart(one("curves"), title));
  return charts.get(title);
}
function draw() {
  drawing = null;
  drawnAt = performance.now();
  if (!epochs.length) return;
  one("axis").hidden = false;
  const by = document.querySelector("input[name=x]:checked").value, x = by === "epoch" ? "epoch" : "seconds of training";
  const best = epochs.best, at = best && (by === "epoch" ? best.epoch + 1 : best.seconds);
  const mark = (y) => best && !missing(y) ? [{ label: `best epoch ${best.epoch + 1}`, points: [{ x: at, y }], colour: 3, dot: true }] : [];
  const share = (name) => isShare(name) ? (y) => metric(y, name) : number;
  write(one("best"), best ? `best: epoch ${best.epoch + 1}, valid ${metric(best.valid, job.metric)}` : "");
  showLast();
  if (!available()) return;
  const curves = (names) => names.map(([label, name, colour]) => ({ label, points: epochs.points(name, by), colour })).filter((one) => one.points.length);
  chart("loss").show(x, [...curves([["loss", "loss", 0], ["valid loss", "valid_loss", 1]]), ...mark(best?.loss)], { logarithmic: one("log").checked });
  const name = epochs.last.metric ?? "metric";
  const others = [...epochs.values.keys()].filter((key) => key.startsWith("valid_") && !["valid_metric", "valid_loss", `valid_${name}`].includes(key));
  for (const key of ["metric", ...others.map((other) => other.slice("valid_".length))]) {
    const series = curves([["train", `train_${key}`, 0], ["valid", `valid_${key}`, 1], ["test", `test_${key}`, 2]]);
    if (series.length) chart(key === "metric" ? name : key).show(x, [...series, ...(key === "metric" ? mark(best?.valid) : [])], { format: share(key === "metric" ? name : key) });
  }
  if (epochs.values.has("epoch_s")) chart("seconds of an epoch").show(x, curves([["epoch", "epoch_s", 0], ...PHASES.map(([label, key], k) => [label, key, k + 1])]), { format: seconds, apart: true });
}
const drawSoon = () => { drawing ??= setTimeout(() => requestAnimationFrame(draw), Math.max(0, drawnAt + DRAW_MS - performance.now())); };

const cut = (text) => text.length > LOG_LETTERS_MOST ? text.slice(-LOG_LETTERS_MOST / 2) : text;
function log(text) {
  const place = one("log-text"), follows = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
  place.append(text);
  if (place.textContent.length > LOG_LETTERS_MOST) place.textContent = cut(place.textContent);
  if (follows) place.scrollTop = place.scrollHeight;
  if (one("rank").value !== "-1") return;
  ofCoordinator = cut(ofCoordinator + text);
  showFailure();
}

// --- events and buttons ---

function take(event) {
  if (event.job) {
    const changed = job.state !== event.job.state;
    job = event.job;
    showJob();
    if (changed) background(showAll);
  }
  if (event.epochs) {
    epochs.add(event.epochs, lessIsBetter(event.epochs[0].metric));
    if (!ENDED.includes(job.state)) {
      job.epoch = epochs.last.epoch + 1;
      write(one("progress"), progressText());
    }
    drawSoon();
  }
  if (event.log) log(event.log);
  if (event.end) background(followOn);
}
/* A job that was resumed before its stream's end had come goes on. */
async function followOn() {
  await showAll();
  if (!ENDED.includes(job.state) && !events.isOpen()) events.again();
}
async function begin() {
  if (!(id > 0)) throw new Error("the address names no job");
  one("again").href = `submit?job=${id}`;
  if (!available()) say("no curves: Chart.js is missing, apt install libjs-chart.js");
  await showAll();
  // Epochs that are here are not sent again.
  events = listen("events", () => ({ job: id, rank: one("rank").value || -1, first: epochs.last ? epochs.last.epoch + 1 : 0 }),
                  () => { one("log-text").textContent = ""; if (one("rank").value === "-1") ofCoordinator = ""; }, take);
  one("rank").addEventListener("change", () => events.again());
  const change = (path, more = () => ({})) => attempt(async () => {
    await post(path, { job: id, ...more() });
    say(`${path}: done`, true);
    await followOn();
  });
  for (const path of ["cancel", "resume", "checkpoint"]) one(path).addEventListener("click", change(path));
  one("scale").addEventListener("click", change("scale", () => ({ workers: Number(one("workers").value) })));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showPanels);
  for (const input of document.querySelectorAll("#axis input")) input.addEventListener("change", draw);
}
attempt(begin)();
