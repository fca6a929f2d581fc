// An editor of a job file: its mistakes and its plan as one types, and the help of the key under the cursor.
import { attempt, bytes, get, make, number, one, post, put, say, write } from "./common.js";

const CHECK_MS = 300;
const PLAN_MS = 700;
const KEYS_MOST = 60;
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
let keys = [], timer = null, asked = 0;
// Of one submission: sent twice, by a second click, it is one job.
let submission = crypto.randomUUID();

const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const job = () => ({ text: one("text").value, set: lines(one("set").value), folder: one("folder").value });

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
    await post("check", of);
    if (mine === asked) write(one("check"), "valid job file");
  } catch (error) {
    if (mine === asked) {
      write(one("check"), error.message);
      one("plan").className = "empty";
      put(one("plan"), "after the mistakes");
    }
    return;
  }
  if (mine !== asked) return;
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
  submission = crypto.randomUUID();
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
    put(one("message"), make("a", { href: `job?job=${made.job}` }, `job ${made.job} (${made.name}) is submitted`));
    one("message").className = "good";
    submission = crypto.randomUUID();
  } finally {
    one("submit").disabled = false;
  }
});

async function begin() {
  const again = new URLSearchParams(location.search).get("job");
  one("folder").value = (await get("about")).folder;
  one("text").value = EXAMPLE;
  if (again) {
    const shown = await get("job", { job: again });
    one("text").value = shown.config;
    one("set").value = (shown.set ?? []).join("\n");
    one("folder").value = shown.folder;
    one("name").value = shown.job.name;
    one("group").value = shown.job.group ?? "";
    one("tags").value = (shown.job.tags ?? []).join(" ");
  }
  for (const id of ["text", "set", "folder"]) one(id).addEventListener("input", typed);
  for (const event of ["keyup", "click", "input"]) one("text").addEventListener(event, showKey);
  one("find").addEventListener("input", showKeys);
  one("submit").addEventListener("click", submit);
  document.addEventListener("keydown", (key) => { if (key.key === "Enter" && (key.ctrlKey || key.metaKey)) submit(); });
  check();
  keys = await get("keys");
  showKeys();
  showKey();
}
attempt(begin)();
