// An editor of a job file: its mistakes at their lines and its plan as one types, and the help of the key under the cursor.
import { attempt, bytes, get, make, number, one, post, put, say, write } from "./common.js";

const CHECK_MS = 300;
const PLAN_MS = 700;
const KEYS_MOST = 60;
const LINE_PX = 20; // as in submit.css
const EXAMPLE = `name = "karate"
[dataset]
generator = "karate"
[model]
kind = "gcn"
hidden = 16
[train]
epochs = 100
[workers]
count = 2
`;
let keys = [], timer = null, asked = 0, wrong = new Map(), jobs = 1;
/* Also where a browser has no randomUUID, which is on pages without TLS. */
const random = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
// Of one submission: sent twice, by a second click, it is one job.
let submission = random();

const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const job = () => ({ text: one("text").value, set: lines(one("set").value), sweep: lines(one("sweep").value), folder: one("folder").value });
const several = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

// --- the text with its lines ---

function drawLines() {
  const all = one("text").value.split("\n");
  put(one("numbers"), ...all.map((_, at) => make("div", { className: wrong.has(at + 1) ? "wrong" : "" }, String(at + 1))));
  put(one("marks"), ...all.map((line, at) => wrong.has(at + 1)
    ? make("div", { className: "wrong" }, make("span", { className: "ghost" }, line), make("span", { className: "why" }, wrong.get(at + 1)))
    : make("div")));
  scrolled();
}
function scrolled() {
  const { scrollTop, scrollLeft } = one("text");
  one("numbers").scrollTop = one("marks").scrollTop = scrollTop;
  one("marks").scrollLeft = scrollLeft;
}
/* Put the cursor there, from 1, with the rest of the line selected. */
function goTo(id, line, column = 1) {
  const field = one(id), all = field.value.split("\n"), begin = all.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
  const length = all[line - 1]?.length ?? 0;
  field.focus();
  field.setSelectionRange(begin + Math.min(column - 1, length), begin + length);
  field.scrollTop = Math.max(0, (line - 4) * LINE_PX);
  field.scrollIntoView({ block: "nearest" });
  showKey();
}

// --- mistakes ---

/* A mistake's place: a line of the job file, or the line of a setting by its key. */
function placeOf(text) {
  const of = text.match(/^job\.toml:(\d+)(?::(\d+))?: (.*)$/s);
  if (of) return { id: "text", line: Number(of[1]), column: Number(of[2] ?? 1), why: of[3] };
  const key = text.match(/^--(?:set|sweep):? '?([\w.]+)/)?.[1];
  for (const id of ["set", "sweep"]) {
    const at = one(id).value.split("\n").findIndex((line) => key && line.trim().startsWith(key));
    if (at >= 0) return { id, line: at + 1, column: 1, why: text };
  }
  return null;
}
function showMistakes(message) {
  const all = message.split("\n").filter(Boolean).map((text) => ({ text, at: placeOf(text) }));
  wrong = new Map(all.filter(({ at }) => at?.id === "text").reverse().map(({ at }) => [at.line, at.why]));
  drawLines();
  put(one("check"), make("ul", { className: "plain" }, ...all.map(({ text, at }) => make("li", {}, at
    ? make("button", { type: "button", onclick: () => goTo(at.id, at.line, at.column) }, at.id === "text" ? `line ${at.line}: ${at.why}` : text)
    : make("span", { className: "wrong" }, text)))));
  one("short").className = "wrong";
  write(one("short"), several(all.length, "mistake"));
}
function showValid() {
  wrong = new Map();
  drawLines();
  put(one("check"), make("span", { className: "good" }, jobs === 1 ? "valid job file" : `valid job file, ${jobs} jobs`));
  write(one("submit"), jobs === 1 ? "submit" : `submit ${jobs} jobs`);
  one("short").className = "";
  write(one("short"), "valid");
}

// --- keys ---

/* The key of the cursor's line: `lr = …` below [train] is train.lr. */
function keyAtCursor() {
  const text = one("text").value, at = one("text").selectionStart;
  const before = text.slice(0, at).split("\n"), line = text.split("\n")[before.length - 1];
  const section = before.map((one) => one.match(/^\s*\[([\w.]+)\]/)).filter(Boolean).at(-1)?.[1];
  const word = line.match(/^\s*([\w.]+)/)?.[1] ?? "";
  return section && !word.includes(".") ? `${section}.${word}` : word;
}
function showKey() {
  const name = keyAtCursor(), key = keys.find((key) => key.name === name);
  write(one("key"), key ? `${key.name}: ${key.help} (${key.values})` : "");
}
function showKeys() {
  const words = one("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = keys.filter((key) => words.every((word) => `${key.name} ${key.help}`.toLowerCase().includes(word)));
  put(one("keys"), ...found.slice(0, KEYS_MOST).map((key) => make("li", {}, make("code", {}, key.name), ` ${key.help} `, make("span", { className: "dim" }, key.values))),
      ...(found.length > KEYS_MOST ? [make("li", { className: "dim" }, `and ${found.length - KEYS_MOST} more`)] : []));
}

// --- check and plan ---

function showPlan(plan) {
  const sum = (name) => plan.workers.reduce((total, worker) => total + worker.memory[name], 0);
  const memory = Object.keys(plan.workers[0].memory).filter((name) => name !== "all" && sum(name));
  const row = (name, value) => make("tr", {}, make("td", {}, name), make("td", { className: "number" }, value));
  write(one("short"), `${bytes(plan.machine_bytes)} of memory, ${several(plan.workers.length, "worker")}, ${bytes(plan.bytes_per_epoch)} sent an epoch`);
  one("plan").className = "scroll";
  put(one("plan"), make("table", {}, make("tbody", {},
    row("graph", `${plan.dataset.nodes} nodes, ${plan.dataset.edges} edges, ${plan.dataset.classes} classes`),
    row("splits", `${plan.dataset.train_nodes} train, ${plan.dataset.valid_nodes} valid, ${plan.dataset.test_nodes} test`),
    row("partition", `${plan.partition.parts} parts, halo ratio ${number(plan.partition.halo_ratio)}, ${plan.partition.cut_edges} edges cut`),
    row("workers", `${plan.workers.length}, no fewer than ${plan.workers_least}`),
    row("weights", String(plan.weights)), row("arithmetic of an epoch", `${number(plan.flops_per_epoch)} flops`),
    row("traffic of an epoch", bytes(plan.bytes_per_epoch)), row("of an evaluation", bytes(plan.bytes_per_evaluation)),
    row("memory that the machine needs", bytes(plan.machine_bytes)),
    row("memory of all workers", bytes(sum("all"))), ...memory.map((name) => row(`of which ${name}`, bytes(sum(name)))))));
}
async function check() {
  const mine = ++asked, of = job();
  try {
    const found = await post("check", of);
    if (mine !== asked) return;
    jobs = found.jobs;
    showValid();
  } catch (error) {
    if (mine !== asked) return;
    showMistakes(error.message);
    one("plan").className = "empty";
    put(one("plan"), "after the mistakes");
    return;
  }
  timer = setTimeout(async () => {
    let plan = null, failure = "";
    one("plan").setAttribute("aria-busy", "true");
    try { plan = await post("plan", of); } catch (error) { failure = error.message; }
    if (mine !== asked) return;
    one("plan").removeAttribute("aria-busy");
    if (plan) showPlan(plan);
    else { one("plan").className = "empty"; put(one("plan"), failure); }
  }, PLAN_MS);
}
function typed() {
  clearTimeout(timer);
  asked++;
  submission = random();
  timer = setTimeout(check, CHECK_MS);
}

// --- submit ---

const submit = attempt(async () => {
  const whole = (id) => one(id).value === "" ? null : Number(one(id).value);
  one("submit").disabled = true;
  try {
    const made = await post("submit", { ...job(), name: one("name").value, group: one("group").value, tags: one("tags").value.split(/\s+/).filter(Boolean),
                                        priority: whole("priority"), time_limit: whole("time_limit"), submission_id: submission });
    say("");
    put(one("message"), made.jobs === 1 ? make("a", { href: `job?job=${made.job}` }, `job ${made.job} (${made.name}) is submitted`)
      : make("a", { href: `compare?group=${encodeURIComponent(made.group)}` }, `${made.jobs} jobs of group ${made.group} are submitted`));
    one("message").className = "good";
    submission = random();
  } finally {
    one("submit").disabled = false;
  }
});

// --- what to begin with ---

function fill(text, set = [], more = {}) {
  one("text").value = text;
  one("set").value = set.join("\n");
  one("sweep").value = "";
  for (const id of ["name", "group", "tags"]) one(id).value = more[id] ?? "";
  if (more.folder) one("folder").value = more.folder;
  drawLines();
}
async function fillFromJob(number) {
  const shown = await get("job", { job: number });
  fill(shown.config, shown.set ?? [], { folder: shown.folder, name: shown.job.name, group: shown.job.group ?? "", tags: (shown.job.tags ?? []).join(" ") });
}
const choose = attempt(async () => {
  const [kind, name] = [one("template").value.slice(0, 1), one("template").value.slice(2)];
  if (kind === "j") await fillFromJob(name);
  else fill(kind === "f" ? await get("template", { name }) : EXAMPLE);
  typed();
});
async function showTemplates() {
  const { files, jobs } = await get("templates");
  const group = (label, options) => options.length ? [make("optgroup", { label }, ...options)] : [];
  one("template").append(
    ...group("this user's last jobs", jobs.map(({ job, name }) => make("option", { value: `j ${job}` }, `${name} (${job})`))),
    ...group("job files", files.map((name) => make("option", { value: `f ${name}` }, name))));
}

async function begin() {
  const again = new URLSearchParams(location.search).get("job");
  one("folder").value = (await get("about")).folder;
  if (again) await fillFromJob(again);
  else fill(EXAMPLE);
  for (const id of ["text", "set", "sweep", "folder"]) one(id).addEventListener("input", typed);
  for (const event of ["keyup", "click", "input"]) one("text").addEventListener(event, showKey);
  one("text").addEventListener("input", drawLines);
  one("text").addEventListener("scroll", scrolled);
  one("numbers").addEventListener("click", (click) => {
    const line = [...one("numbers").children].indexOf(click.target) + 1;
    if (line) goTo("text", line);
  });
  one("template").addEventListener("change", choose);
  one("find").addEventListener("input", showKeys);
  one("submit").addEventListener("click", submit);
  document.addEventListener("keydown", (key) => { if (key.key === "Enter" && (key.ctrlKey || key.metaKey)) submit(); });
  check();
  keys = await get("keys");
  showKeys();
  showKey();
  await showTemplates();
}
attempt(begin)();
