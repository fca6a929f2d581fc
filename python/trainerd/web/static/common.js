// What all pages share: requests, events, elements whose text is only text, and formats. Epochs are numbered from 1 on all pages.

const NO_ANSWER = "the server or the daemon does not answer; trying again";
export const ENDED = ["SUCCEEDED", "FAILED", "CANCELLED"];
/* A job that was told to stop is "CANCELLING" until it has. */
export const stateOf = (job) => job.reason === "CANCELLING" && !ENDED.includes(job.state) ? "CANCELLING" : job.state;
export const one = (id) => document.getElementById(id);

async function answer(response) {
  const value = await response.json();
  if (!response.ok) throw new Error(value.error);
  return value;
}
export async function get(path, query = {}) {
  return answer(await fetch(`api/${path}?${new URLSearchParams(query)}`));
}
export async function post(path, body) {
  return answer(await fetch(`api/${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));
}

/* Events of a stream, while the page is seen: a browser has six connections for all its pages. `begin` is called before the first one.
 * Returned: again() opens it anew; isOpen(): has it not ended? */
export function listen(path, query, begin, take) {
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(`api/${path}?${new URLSearchParams(query())}`);
    source.onopen = () => {
      if (one("message").textContent === NO_ANSWER) say("");
      begin();
    };
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      if (event.error) say(event.error);
      else if (event.end) close();
      take(event);
    };
    source.onerror = () => say(NO_ANSWER);
  };
  const close = () => { source?.close(); source = null; };
  const turn = () => document.hidden ? close() : open();
  document.addEventListener("visibilitychange", turn);
  open();
  return { again: () => { close(); open(); }, isOpen: () => source !== null };
}

/* An element; `given` are properties, and attributes where there is no such property. Children are elements or texts. */
export function make(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) name in made ? made[name] = value : made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}
export function put(parent, ...children) { parent.replaceChildren(...children); }
export function write(element, text) { if (element.textContent !== text) element.textContent = text; }

export function say(text, good = false) {
  const place = one("message");
  place.className = good ? "good" : "";
  write(place, text);
}
/* A page's own requests keep the message of the user's last action. */
export const background = (work) => work().catch((error) => say(error.message));
export const attempt = (work) => (...given) => {
  say("");
  return background(async () => work(...given));
};

export const missing = (x) => x === null || x === undefined;
export function bytes(n) {
  if (missing(n)) return "";
  const unit = n <= 0 ? 0 : Math.min(4, Math.floor(Math.log10(n) / 3));
  return `${unit ? Number((n / 1000 ** unit).toPrecision(3)) : n} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
}
export function seconds(s) {
  if (missing(s)) return "";
  if (s < 0.1) return `${Number(Number((1000 * s).toPrecision(3)).toFixed(3))} ms`;
  if (s < 60) return `${Number(s.toPrecision(3))} s`;
  const [days, hours, minutes] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  return days ? `${days} d ${hours} h` : hours ? `${hours} h ${minutes} min` : `${minutes} min ${Math.floor(s % 60)} s`;
}
export const number = (x) => missing(x) ? "" : String(Number(x.toPrecision(4)));
// Errors of regression have units of their own; all other metrics are shares.
export const lessIsBetter = (metric) => ["rmse", "mae"].includes(metric);
export const isShare = (metric) => !lessIsBetter(metric) && metric !== "r2";
export const metric = (x, name) => missing(x) ? "" : isShare(name) ? `${(100 * x).toFixed(2)} %` : number(x);
export const when = (s) => missing(s) ? "" : new Date(1000 * s).toLocaleString();
export const age = (s) => missing(s) ? "" : seconds(Math.max(0, Math.round(Date.now() / 1000 - s)));

export function showMachine(machine) {
  if (machine.cores) write(one("machine"), `${machine.cores} cores, load ${machine.load} · memory ${bytes(machine.memory_used)} of ${bytes(machine.memory)}`);
}
