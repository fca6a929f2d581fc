// The list of jobs: those that run, those that wait, those that have ended; rows are made as they are looked at.
import { ENDED, age, bytes, listen, make, metric, missing, one, say, seconds, showMachine, write } from "./common.js";

const STEP = 100;
const jobs = new Map();
const rows = new Map();
let limit = STEP;

const rank = (job) => job.state === "QUEUED" ? 1 : ENDED.includes(job.state) ? 2 : 0;
function before(a, b) {
  const by = rank(a) - rank(b);
  if (by) return by;
  return rank(a) === 1 ? (a.position ?? Infinity) - (b.position ?? Infinity) || a.id - b.id : b.id - a.id;
}
function wanted(job, words, state) {
  if (state && job.state !== state) return false;
  const text = [job.id, job.name, job.owner, job.group ?? "", ...job.tags ?? []].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

const COLUMNS = [ // class, heading on a phone, content
  ["number", "#", (job) => String(job.id)],
  ["name", "", (job) => job.name],
  ["", "", (job) => job.state],
  ["", "", (job) => job.epochs ? `${job.epoch}/${job.epochs}` : ""],
  ["number", "left", (job) => rank(job) ? "" : seconds(job.seconds_left)],
  ["number", "valid", (job) => metric(job.valid_metric, job.metric)],
  ["number", "best", (job) => metric(job.best_valid_metric, job.metric)],
  ["number", "test", (job) => metric(job.best_test_metric, job.metric)],
  ["number", "memory", (job) => bytes(job.memory_measured || job.memory || null)],
  ["", "group", (job) => job.group ?? ""],
  ["", "", (job) => job.owner],
  ["number", "age", (job) => age(job.submitted_at)],
];
const [NAME, STATE, PROGRESS, GROUP] = [1, 2, 3, 9];

function rowMake(job) {
  const cells = COLUMNS.map(([kind, of]) => make("td", of ? { className: kind, "data-of": of } : { className: kind }));
  cells[NAME].append(make("a", { href: `job?job=${job.id}` }));
  cells[STATE].append(make("span"));
  cells[PROGRESS].append(make("progress", { max: 1, hidden: true }), " ", make("span"));
  cells[GROUP].append(make("a"));
  return make("tr", {}, ...cells);
}
function rowWrite(row, job) {
  COLUMNS.forEach(([, , content], k) => {
    const cell = row.cells[k], text = content(job);
    write(cell.lastElementChild ?? cell, text);
    cell.classList.toggle("blank", !text);
    if (k === STATE) {
      cell.firstElementChild.className = `state ${job.state}`;
      cell.title = job.reason_text ?? "";
    } else if (k === PROGRESS) {
      cell.firstElementChild.hidden = !text || rank(job) > 0;
      if (text) cell.firstElementChild.value = job.epoch / job.epochs;
    } else if (k === GROUP && text) {
      cell.firstElementChild.href = `compare?group=${encodeURIComponent(job.group)}`;
    }
  });
}

function show() {
  const words = one("filter").value.toLowerCase().split(/\s+/).filter(Boolean), state = one("state").value;
  const found = [...jobs.values()].filter((job) => wanted(job, words, state)).sort(before);
  const seen = found.slice(0, limit).map((job) => {
    if (!rows.has(job.id)) rows.set(job.id, rowMake(job));
    rowWrite(rows.get(job.id), job);
    return rows.get(job.id);
  });
  const body = one("jobs");
  if (seen.length !== body.children.length || seen.some((row, k) => row !== body.children[k])) body.replaceChildren(...seen);
  for (const [id, row] of rows) if (!row.isConnected) rows.delete(id);
  write(one("shown"), `${found.length} of ${jobs.size} jobs`);
  one("more").hidden = found.length <= limit;
  one("empty").hidden = found.length > 0;
  write(one("empty"), jobs.size ? "No job is like this filter." : "There are no jobs yet.");
}

function showCounts(counts) {
  const select = one("state"), chosen = select.value;
  const states = Object.entries(counts).filter(([state, n]) => n || state === chosen);
  const texts = [["", "all states"], ...states.map(([state, n]) => [state, `${state.toLowerCase()} ${n}`])];
  if (texts.map(String).join() === [...select.options].map((o) => String([o.value, o.text])).join()) return;
  select.replaceChildren(...texts.map(([value, text]) => make("option", { value, selected: value === chosen }, text)));
}

listen("jobs", () => ({}), () => { say(""); jobs.clear(); }, (event) => {
  if (!event.jobs) return;
  for (const row of event.jobs) {
    const job = Object.fromEntries(event.fields.map((name, k) => [name, row[k]]));
    if (!missing(job.id)) jobs.set(job.id, job);
  }
  showCounts(event.counts);
  showMachine(event.machine);
  show();
});
one("filter").value = new URLSearchParams(location.search).get("filter") ?? "";
one("filter").addEventListener("input", () => { limit = STEP; show(); });
one("state").addEventListener("change", () => { limit = STEP; show(); });
one("more").addEventListener("click", () => { limit += 5 * STEP; show(); });
document.addEventListener("keydown", (key) => {
  if (key.key === "/" && document.activeElement !== one("filter")) { key.preventDefault(); one("filter").focus(); }
});
