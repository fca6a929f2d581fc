// The list of jobs: those that run, those that wait, those that have ended, or by a column; a group is one row that unfolds. Rows are made as
// they are looked at, and so are the data, the model and the settings asked for.
import { ENDED, age, attempt, bytes, get, lessIsBetter, listen, make, metric, missing, one, post, put, say, seconds, showMachine, stateOf, write } from "./common.js";

const STEP = 100;
const CANCEL_STEP = 50; // jobs of a request
const COMPARED_MOST = 500;
const jobs = new Map();
const rows = new Map(); // of jobs' numbers and groups' keys
const submissions = new Map(); // of jobs' numbers: data, model, settings; null while they are asked for
const unfolded = new Set();
const selected = new Set();
let limit = STEP, order = { column: "", down: false }, found = [];

// --- what jobs are like ---

const rank = (job) => job.state === "QUEUED" ? 1 : ENDED.includes(job.state) ? 2 : 0;
function byTurn(a, b) {
  const by = rank(a) - rank(b);
  if (by) return by;
  return rank(a) === 1 ? (a.position ?? Infinity) - (b.position ?? Infinity) || a.id - b.id : b.id - a.id;
}
function wanted(job, words, state) {
  if (state && job.state !== state) return false;
  const text = [job.id, job.name, job.owner, job.group ?? "", ...job.tags ?? []].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}
const own = (job) => !missing(job.submitted_at); // of other users' jobs the daemon tells the name and the state
const progress = (job) => job.epochs ? `${job.epoch}/${job.epochs}` : "";
const left = (job) => rank(job) || missing(job.seconds_left) ? "" : `${seconds(job.seconds_left)} left`;
const dataAndModel = (job) => { const of = submissions.get(job.id); return of?.model ? `${of.model} on ${of.data}` : ""; };
const reason = (job) => job.state === "FAILED" ? job.reason_text ?? "" : "";

// --- groups ---

const keyOf = (job) => job.group ? `${job.owner}\n${job.group}` : "";
/* Settings whose values differ between these jobs, as far as they are known. */
function varying(members) {
  const known = members.map((job) => submissions.get(job.id)?.settings).filter(Boolean);
  const names = [...new Set(known.flatMap(Object.keys))];
  return names.filter((name) => known.some((settings) => settings[name] !== known[0][name]));
}
const settingsText = (job, names) => names.map((name) => [name.split(".").at(-1), submissions.get(job.id)?.settings?.[name]])
  .filter(([, value]) => !missing(value)).map((pair) => pair.join(" ")).join(", ");

function sampleOf(values, name) {
  if (!values.length) return null;
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const deviation = Math.sqrt(values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (values.length - 1 || 1));
  return values.length > 1 ? `${metric(mean, name).replace(/ %$/, "")} ± ${metric(deviation, name)}` : metric(mean, name);
}
/* Best of all that have been evaluated; means over those that have succeeded, as trainctl compare has them. */
function summaryOf(members) {
  const { metric: name } = members.find((job) => job.metric) ?? {}, sign = lessIsBetter(name) ? -1 : 1;
  const evaluated = members.filter((job) => !missing(job.best_valid_metric));
  const best = evaluated.length ? evaluated.reduce((a, b) => sign * (b.best_valid_metric - a.best_valid_metric) > 0 ? b : a) : null;
  const mean = (of) => sampleOf(members.filter((job) => job.state === "SUCCEEDED").map((job) => job[of]).filter((x) => !missing(x)), name);
  const states = new Map();
  for (const job of members) states.set(stateOf(job), (states.get(stateOf(job)) ?? 0) + 1);
  const sum = (of) => members.reduce((total, job) => total + (job[of] ?? 0), 0);
  return { name, best, valid: mean("best_valid_metric"), test: mean("best_test_metric"), states, ended: members.filter((job) => rank(job) === 2).length, ran: sum("ran_s") };
}

// --- columns: a class, a heading, and what jobs are ordered by ---

const COLUMNS = [
  { name: "#", kind: "number", by: (job) => job.id, down: true },
  { name: "name", by: (job) => job.name },
  { name: "state", by: (job) => stateOf(job) },
  { name: "progress", by: (job) => job.epochs ? job.epoch / job.epochs : null, down: true },
  { name: "model and data" },
  { name: "valid", kind: "number", by: (job) => job.best_valid_metric, down: true, better: true },
  { name: "test", kind: "number", by: (job) => job.best_test_metric, down: true, better: true },
  { name: "memory", kind: "number", by: (job) => job.memory_measured || job.memory || null, down: true },
  { name: "ran", kind: "number", by: (job) => job.ran_s || null, down: true },
  { name: "owner", kind: "owner", by: (job) => job.owner },
  { name: "age", kind: "number", by: (job) => missing(job.submitted_at) ? null : -job.submitted_at },
];
function before() {
  const column = COLUMNS.find((one) => one.name === order.column);
  if (!column) return byTurn;
  return (a, b) => {
    const [x, y] = [column.by(a), column.by(b)];
    if (missing(x) || missing(y)) return missing(x) - missing(y) || byTurn(a, b); // at the end, whichever way
    const turned = order.down !== Boolean(column.better && lessIsBetter(a.metric));
    return (x < y ? -1 : x > y ? 1 : 0) * (turned ? -1 : 1) || byTurn(a, b);
  };
}
/* Of a column: first its better or plain order, then the other way, then by turn again. */
function orderBy(name) {
  const column = COLUMNS.find((one) => one.name === name), first = Boolean(column?.down);
  if (order.column !== name) order = { column: name, down: first };
  else order = order.down === first ? { column: name, down: !first } : { column: "", down: false };
  show();
}
function showHeads() {
  for (const head of one("heads").children) {
    const { name } = head.dataset;
    if (!name) continue;
    if (order.column === name) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  one("order").value = order.column;
}
function makeHeads() {
  const all = make("input", { type: "checkbox", ariaLabel: "select all jobs of the list" });
  all.addEventListener("change", () => { for (const job of found) choose(job.id, all.checked); show(); });
  put(one("heads"), make("th", {}, all), ...COLUMNS.map(({ name, kind = "", by }) => {
    const head = make("th", { className: kind, scope: "col" }, by ? make("button", { className: "sort", type: "button" }, name) : name);
    if (by) {
      head.dataset.name = name;
      head.firstChild.addEventListener("click", () => orderBy(name));
    }
    return head;
  }), make("td", { className: "brief" }));
  put(one("order"), make("option", { value: "" }, "by turn"), ...COLUMNS.filter(({ by }) => by).map(({ name }) => make("option", { value: name }, `by ${name === "#" ? "number" : name}`)));
  one("order").addEventListener("change", () => { order = { column: "", down: false }; orderBy(one("order").value); });
}

// --- rows ---

const [NUMBER, NAME, STATE, PROGRESS, MODEL, VALID, TEST, MEMORY, RAN, OWNER, AGE, BRIEF] = Array.from({ length: 12 }, (_, k) => k + 1);
const KINDS = ["select", "number id", "name", "status", "progress", "model", "number", "number", "number", "number", "owner", "number", "brief"];
const detail = (className = "") => make("div", { className: `detail ${className}` });

function choose(id, is) { is ? selected.add(id) : selected.delete(id); }

function rowOf(key, fill) {
  if (rows.has(key)) return rows.get(key);
  const row = make("tr", {}, ...KINDS.map((className) => make("td", { className })));
  const box = make("input", { type: "checkbox" });
  row.cells[0].append(box);
  row.cells[PROGRESS].append(make("progress", { max: 1, hidden: true, ariaLabel: "progress" }), make("span"));
  for (const k of [VALID, TEST]) row.cells[k].append(make("span"), detail());
  fill(row, box);
  rows.set(key, row);
  return row;
}
const writeTitled = (cell, text, title = text) => { write(cell, text); if (cell.title !== title) cell.title = title; };

function jobRow(job, names) {
  const row = rowOf(job.id, (made, box) => {
    made.className = "job";
    box.addEventListener("change", () => { choose(job.id, box.checked); show(); });
    made.cells[NAME].append(make("a", { href: `job?job=${job.id}` }), make("a", { className: "group", href: `compare?group=${encodeURIComponent(job.group ?? "")}` }), detail(), detail("bad"));
    made.cells[STATE].append(make("span"));
  });
  const cells = row.cells, settings = names ? settingsText(job, names) : "";
  row.classList.toggle("member", Boolean(names));
  const [name, group, differs, why] = cells[NAME].children;
  cells[0].firstChild.checked = selected.has(job.id);
  cells[0].firstChild.ariaLabel = `select job ${job.id}`;
  write(cells[NUMBER], String(job.id));
  write(name, job.name);
  write(group, names ? "" : job.group ?? "");
  write(differs, settings);
  writeTitled(why, reason(job));
  write(cells[STATE].firstChild, stateOf(job));
  cells[STATE].firstChild.className = `state ${stateOf(job)}`;
  cells[STATE].title = job.reason_text ?? "";
  const [bar, share] = cells[PROGRESS].children;
  bar.hidden = !job.epochs || rank(job) > 0;
  if (!bar.hidden) bar.value = job.epoch / job.epochs;
  write(share, [progress(job), left(job)].filter(Boolean).join(", "));
  writeTitled(cells[MODEL], dataAndModel(job));
  write(cells[VALID].firstChild, metric(job.best_valid_metric, job.metric));
  cells[VALID].title = job.metric ?? "";
  write(cells[TEST].firstChild, metric(job.best_test_metric, job.metric));
  write(cells[MEMORY], bytes(job.memory_measured || job.memory || null));
  write(cells[RAN], job.ran_s ? seconds(job.ran_s) : "");
  write(cells[OWNER], job.owner);
  write(cells[AGE], age(job.submitted_at));
  const parts = [settings, rank(job) ? "" : progress(job), metric(job.best_valid_metric, job.metric), dataAndModel(job), job.ran_s ? seconds(job.ran_s) : ""];
  write(cells[BRIEF], reason(job) || parts.filter(Boolean).join(" · ") || (own(job) ? `${age(job.submitted_at)} old` : job.owner));
  cells[BRIEF].classList.toggle("bad", Boolean(reason(job)));
  return row;
}

function groupRow(key, members) {
  const row = rowOf(key, (made, box) => {
    made.className = "group";
    box.addEventListener("change", () => { for (const job of found) if (keyOf(job) === key) choose(job.id, box.checked); show(); });
    const fold = make("button", { className: "fold", type: "button" }, make("span"), make("span"));
    fold.addEventListener("click", () => { unfolded.has(key) ? unfolded.delete(key) : unfolded.add(key); show(); });
    made.cells[NAME].append(fold, detail());
    made.cells[NAME].lastChild.append(make("span"), make("a", { href: `compare?group=${encodeURIComponent(members[0].group)}` }, "compare"));
  });
  const cells = row.cells, [fold, below] = cells[NAME].children, of = summaryOf(members), n = members.filter((job) => selected.has(job.id)).length;
  const box = cells[0].firstChild, states = [...of.states].map(([state, k]) => `${k} ${state.toLowerCase()}`);
  box.checked = n === members.length;
  box.indeterminate = n > 0 && n < members.length;
  box.ariaLabel = `select the jobs of ${members[0].group}`;
  fold.ariaExpanded = String(unfolded.has(key));
  write(fold.firstChild, unfolded.has(key) ? "▾" : "▸");
  write(fold.lastChild, members[0].group);
  write(below.firstChild, `${members.length} jobs `);
  put(cells[STATE], ...[...of.states].map(([state, k]) => make("div", { className: `state ${state}` }, `${k} ${state.toLowerCase()}`)));
  const [bar, share] = cells[PROGRESS].children;
  bar.hidden = of.ended === members.length;
  bar.value = of.ended / members.length;
  write(share, `${of.ended}/${members.length} ended`);
  writeTitled(cells[MODEL], dataAndModel(members[0]));
  for (const [k, best, mean] of [[VALID, of.best?.best_valid_metric, of.valid], [TEST, of.best?.best_test_metric, of.test]]) {
    write(cells[k].firstChild, missing(best) ? "" : `best ${metric(best, of.name)}`);
    write(cells[k].lastChild, mean ? `mean ${mean}` : "");
  }
  cells[VALID].title = of.name ?? "";
  cells[TEST].title = "of the job with the best validation metric; mean of those that have succeeded";
  write(cells[RAN], of.ran ? seconds(of.ran) : "");
  cells[RAN].title = "all jobs together";
  write(cells[OWNER], members[0].owner);
  write(cells[AGE], age(Math.max(...members.map((job) => job.submitted_at ?? 0)) || null));
  write(cells[BRIEF], [`${members.length} jobs`, of.best ? `best ${metric(of.best.best_valid_metric, of.name)}` : "", of.valid && of.ended > 1 ? `mean ${of.valid}` : "",
                       of.best ? "" : states.join(", ")].filter(Boolean).join(" · "));
  return row;
}

/* The list as rows: a group where its first job would be, its other jobs only if it is unfolded. */
function linesOf() {
  const groups = new Map();
  for (const job of found) groups.has(keyOf(job)) ? groups.get(keyOf(job)).push(job) : groups.set(keyOf(job), [job]);
  const lines = [], done = new Set();
  for (const job of found) {
    const key = keyOf(job), members = groups.get(key);
    if (!key || members.length < 2) lines.push({ job });
    else if (!done.has(key)) {
      done.add(key);
      lines.push({ key, members });
      if (unfolded.has(key)) for (const member of members) lines.push({ job: member, members });
    }
  }
  return lines;
}

function show() {
  const words = one("filter").value.toLowerCase().split(/\s+/).filter(Boolean), state = one("state").value;
  found = [...jobs.values()].filter((job) => wanted(job, words, state)).sort(before());
  const lines = linesOf(), names = new Map();
  const namesOf = (members) => names.get(members) ?? names.set(members, varying(members)).get(members);
  const seen = lines.slice(0, limit).map((line) => line.key ? groupRow(line.key, line.members) : jobRow(line.job, line.members ? namesOf(line.members) : null));
  const body = one("jobs");
  if (seen.length !== body.children.length || seen.some((row, k) => row !== body.children[k])) place(body, seen);
  for (const [key, row] of rows) if (!row.isConnected) rows.delete(key);
  write(one("shown"), `${found.length} of ${jobs.size} jobs`);
  one("more").hidden = lines.length <= limit;
  one("empty").hidden = found.length > 0;
  write(one("empty"), jobs.size ? "No job is like this filter." : "There are no jobs yet.");
  showHeads();
  showSelection();
  ask(lines.slice(0, limit).map((line) => line.job ?? line.members[0]));
}
/* A row that moves keeps the keyboard's place. */
function place(body, seen) {
  const focus = document.activeElement;
  body.replaceChildren(...seen);
  if (focus !== document.activeElement && focus.isConnected) focus.focus();
}

/* Ask for data, models and settings of jobs that are shown, a hundred at a time. */
async function ask(shown) {
  const news = shown.filter((job) => own(job) && !submissions.has(job.id)).slice(0, STEP).map((job) => job.id);
  if (!news.length) return;
  for (const id of news) submissions.set(id, null);
  try {
    const found = await get("submissions", { jobs: news.join() });
    for (const id of news) submissions.set(id, found[id] ?? null);
  } catch (error) {
    say(error.message);
    return;
  }
  show();
}

// --- the selection ---

const chosen = () => [...selected].map((id) => jobs.get(id)).filter(Boolean);
const active = (job) => rank(job) < 2 && job.reason !== "CANCELLING";
function showSelection() {
  const all = chosen(), n = all.filter(active).length;
  one("selection").hidden = !all.length;
  write(one("selected"), `${all.length} selected`);
  write(one("cancel"), n ? `cancel ${n}` : "cancel");
  one("cancel").disabled = !n;
  one("compare").disabled = all.length > COMPARED_MOST;
  one("compare").title = all.length > COMPARED_MOST ? `at most ${COMPARED_MOST}` : "";
  const box = one("heads").querySelector("input"), inList = found.filter((job) => selected.has(job.id)).length;
  box.checked = found.length > 0 && inList === found.length;
  box.indeterminate = inList > 0 && inList < found.length;
}
const cancel = attempt(async () => {
  const all = chosen().filter(active).map((job) => job.id), refused = [];
  if (all.length > 1 && !confirm(`Cancel ${all.length} jobs?`)) return;
  one("cancel").disabled = true;
  for (let k = 0; k < all.length; k += CANCEL_STEP) {
    say(`cancelling ${Math.min(k + CANCEL_STEP, all.length)} of ${all.length}`, true);
    const answer = await post("cancel", { jobs: all.slice(k, k + CANCEL_STEP) });
    refused.push(...Object.entries(answer.refused).map(([id, why]) => `job ${id}: ${why}`));
  }
  if (refused.length) throw new Error(refused.join("\n"));
  say(all.length === 1 ? `job ${all[0]} is being cancelled` : `${all.length} jobs are being cancelled`, true);
});

// --- events ---

function showCounts(counts) {
  const select = one("state"), chosen = select.value;
  const states = Object.entries(counts).filter(([state, n]) => n || state === chosen);
  const texts = [["", "all states"], ...states.map(([state, n]) => [state, `${state.toLowerCase()} ${n}`])];
  if (texts.map(String).join() === [...select.options].map((o) => String([o.value, o.text])).join()) return;
  select.replaceChildren(...texts.map(([value, text]) => make("option", { value, selected: value === chosen }, text)));
}

makeHeads();
listen("jobs", () => ({}), () => { say(""); jobs.clear(); }, (event) => {
  if (!event.jobs) return;
  for (const row of event.jobs) {
    const job = Object.fromEntries(event.fields.map((name, k) => [name, row[k]]));
    if (!missing(job.id)) jobs.set(job.id, job);
  }
  document.querySelector("table.jobs").classList.toggle("one-owner", new Set([...jobs.values()].map((job) => job.owner)).size < 2);
  showCounts(event.counts);
  showMachine(event.machine);
  show();
});
one("filter").value = new URLSearchParams(location.search).get("filter") ?? "";
one("filter").addEventListener("input", () => { limit = STEP; show(); });
one("state").addEventListener("change", () => { limit = STEP; show(); });
one("more").addEventListener("click", () => { limit += 5 * STEP; show(); });
one("compare").addEventListener("click", () => { location.href = `compare?jobs=${[...selected].sort((a, b) => a - b).join()}`; });
one("cancel").addEventListener("click", cancel);
one("clear").addEventListener("click", () => { selected.clear(); show(); });
document.addEventListener("keydown", (key) => {
  if (key.key === "/" && document.activeElement !== one("filter")) { key.preventDefault(); one("filter").focus(); }
});
