"""The pages in headless Chromium, with a real daemon: a running job, failed ones, and 5 000 that wait.

Screenshots are written to $SCREENSHOTS, for people to look at.
"""
import contextlib
import functools
import http.server
import os
import pathlib
import signal
import statistics
import subprocess
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import trainerd
from daemon import LONG, PATIENCE_S, PROGRAMS, SHORT, DaemonCase

SCRIPT = "<img src=x onerror=document.title=1>"
WAITING = 5000
LONG_EPOCHS = 10000
MOST_REQUESTS = 40  # 3 and 8 on an idle machine; a slow one refreshes more often before it has drawn
PHONE, DESK = 390, 1440
SEEN_S = 60  # until a page shows what it should, on a loaded machine
SCREENSHOTS = pathlib.Path(os.environ["SCREENSHOTS"])
AXE = pathlib.Path(__file__).resolve().parents[3] / "build/python/axe_selenium_python/node_modules/axe-core/axe.min.js"


def browser_start(*more: str) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for argument in (*more, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--window-size=1280,1000"):
        options.add_argument(argument)
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


class PagesCase(DaemonCase):
    """The daemon with its jobs, `trainctl web`, and a browser that has opened its address."""

    browser: webdriver.Chrome
    address: str
    base: str
    done: trainerd.Job
    failed: trainerd.Job  # before it began
    diverged: trainerd.Job
    linked: trainerd.Job
    long: trainerd.Job
    running: trainerd.Job

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        client = trainerd.Client(cls.daemon.address)
        cls.done = client.submit({**SHORT, "name": SCRIPT, "dataset": {"generator": "sbm", "nodes": 2000}}, set={"workers.count": 2, "partition.parts": 4,
                                                                                                              "train.epochs": 30})
        cls.failed = client.submit({**SHORT, "name": "failing", "dataset": {"path": "nowhere"}})
        cls.diverged = client.submit({**SHORT, "name": "diverged", "model": {"kind": "sage", "layers": 16}, "train": {"lr": 1e6, "optimizer": "sgd", "epochs": 50}})
        sweep = [{"train.lr": lr, "model.hidden": hidden, "train.seed": seed} for lr in (0.01, 0.003) for hidden in (8, 16) for seed in (1, 2)]
        jobs = client.submit_group({**SHORT, "dataset": {"generator": "sbm", "nodes": 500, "noise": 3.0}}, sweep, group="sweep", set={"train.epochs": 40})
        links = client.submit_group({**SHORT, "dataset": {"generator": "sbm", "nodes": 500}, "task": {"kind": "link"},
                                     "train": {"epochs": 6, "metrics": ["hits@10", "mrr"]}}, [{"train.lr": 0.01}, {"train.lr": 0.003}], group="links")
        cls.linked = links[0]
        for job in (cls.done, cls.failed, cls.diverged, *jobs, *links):
            job.wait(PATIENCE_S, check=False)
        cls.long = client.submit({**SHORT, "name": "epochs", "train": {"epochs": LONG_EPOCHS}})
        cls.running = client.submit({**LONG, "name": "running", "dataset": {"generator": "sbm", "nodes": 20000}}, set={"workers.heartbeat_timeout": 3600})
        for event in cls.running.watch(timeout=PATIENCE_S):
            if event.get("event") == "epoch":
                break
        cls._signal(signal.SIGSTOP)
        cls.addClassCleanup(cls._signal, signal.SIGCONT)
        for part in range(WAITING // 1000):
            client.submit_group({**SHORT, "name": "waiting"}, [{"train.seed": 1000 * part + seed} for seed in range(1000)], group="waiting",
                                set={"workers.count": 4, "partition.parts": 4})
        cls.addClassCleanup(lambda: client.cancel_group("waiting"))
        cls._serve()
        cls.browser = browser_start()
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.get(cls.address)

    @classmethod
    def _signal(cls, number: int) -> None:
        """To the worker of the running job, which is stopped where nobody watches: the browser has the processors."""
        for worker in cls.running.workers()["workers"]:
            os.kill(worker["pid"], number)

    @classmethod
    def _serve(cls) -> None:
        environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(trainerd.__file__).parents[1])}
        server = subprocess.Popen([str(PROGRAMS / "trainctl"), "web", "--to", cls.daemon.address], env=environment, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.terminate)
        cls.addClassCleanup(server.stdout.close)
        server.stdout.readline()
        cls.address = server.stdout.readline().strip()
        cls.base = cls.address.partition("?")[0]

    def tearDown(self) -> None:
        """No page has a mistake in its scripts, breaks the policy, or asks another host."""
        messages = [entry["message"] for entry in self.browser.get_log("browser") if "status of 40" not in entry["message"]]
        self.assertEqual(messages, [])

    # --- what a user does and sees ---

    def open(self, path: str) -> float:
        began = time.monotonic()
        self.browser.get(self.base + path)
        return began

    def one(self, identity: str) -> Any:
        return self.browser.find_element(By.ID, identity)

    def text(self, identity: str) -> str:
        return str(self.one(identity).text)

    def until(self, what: str, seen: Callable[[], Any]) -> Any:
        until = time.monotonic() + SEEN_S
        while time.monotonic() < until:
            with contextlib.suppress(StaleElementReferenceException):
                if found := seen():
                    return found
            time.sleep(0.02)
        raise AssertionError(f"never: {what}; the page has {self.browser.find_element(By.TAG_NAME, 'body').text[:2000]}")

    def until_text(self, identity: str, words: str) -> None:
        self.until(f"'{words}' in {identity}", lambda: words in self.text(identity))

    def script(self, text: str, *given: Any) -> Any:
        return self.browser.execute_script(text, *given)

    def assert_few_requests(self) -> None:
        """Whatever a page shows comes with few answers; seconds are docs/web.md's, as here the machine may be busy."""
        asked = self.script("return performance.getEntriesByType('resource').map(r => r.name)")
        self.assertLessEqual(len(asked), MOST_REQUESTS, asked)

    def names(self) -> list[str]:
        found = self.script("return [...document.querySelectorAll('#jobs a')].filter(a => a.href.includes('job?')).map(a => a.textContent)")
        return [str(name) for name in found]

    def screenshot(self, name: str) -> None:
        height = self.script("return document.documentElement.scrollHeight")
        self.browser.set_window_size(self.script("return innerWidth"), min(3000, height + 140))
        time.sleep(0.3)  # charts are drawn anew
        self.browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
        self.browser.set_window_size(1280, 1000)

    @contextlib.contextmanager
    def emulated(self, width: int, scheme: str) -> Iterator[None]:
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width <= PHONE})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        try:
            yield
        finally:
            self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


class Pages(PagesCase):
    def test_jobs_are_listed_running_first_and_5000_wait(self) -> None:
        began = self.open("")
        self.until("rows", self.names)
        took = time.monotonic() - began
        print(f"\njobs: {WAITING} jobs are listed after {took:.2f} s")
        self.assert_few_requests()
        count = sum(self.client.counts().values())
        self.until_text("shown", f"{count} of {count} jobs")
        self.assertEqual(self.names()[:1], ["running"])
        group = self.fold("waiting")
        self.assertIn("5000 jobs", group.text)
        group.find_element(By.CSS_SELECTOR, "button.fold").click()
        self.assertEqual(self.names()[:2], ["running", "waiting"])
        self.assertEqual(self.script("return document.querySelectorAll('#jobs tr').length"), 100)
        self.until("their settings", lambda: "seed 3" in self.script("return document.querySelectorAll('#jobs tr.member')[3].textContent"))
        first = self.browser.find_element(By.CSS_SELECTOR, "#jobs tr")
        before = first.text
        self.until("progress", lambda: first.text != before)
        self.one("more").click()
        self.assertEqual(self.script("return document.querySelectorAll('#jobs tr').length"), 600)
        self.assertIn("cores", self.text("machine"))
        self.screenshot("jobs")

    def test_jobs_are_filtered_from_the_keyboard(self) -> None:
        self.open("")
        self.until("rows", self.names)
        self.browser.find_element(By.TAG_NAME, "body").send_keys("/")
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "filter")
        self.browser.switch_to.active_element.send_keys("FAILING")
        self.assertEqual(self.names(), ["failing"])
        self.one("filter").send_keys(Keys.CONTROL, "a")
        self.one("filter").send_keys("no such job")
        self.assertEqual(self.names(), [])
        self.assertTrue(self.one("empty").is_displayed())
        self.one("filter").clear()
        self.one("filter").send_keys(Keys.SPACE)
        self.one("state").send_keys("failed")
        self.until("the failed jobs", lambda: self.names() == ["diverged", "failing"])
        self.assertIn("nowhere: No such file", self.browser.find_elements(By.CSS_SELECTOR, "#jobs .detail.bad")[1].text)

    def fold(self, group: str) -> Any:
        return self.until(group, lambda: next(iter(self.browser.find_elements(By.XPATH, f"//tr[@class='group'][.//button/span[text()='{group}']]")), None))

    def test_a_group_folds_and_says_best_and_mean(self) -> None:
        self.open("?filter=sweep")
        row = self.fold("sweep")
        self.assertEqual(self.names(), [])
        jobs = self.client.jobs(group="sweep")
        valid = [job["best_valid_metric"] or 0.0 for job in jobs]
        for words in ("8 jobs", "8 succeeded", f"best {100 * max(valid):.2f} %",
                      f"mean {100 * statistics.mean(valid):.2f} ± {100 * statistics.stdev(valid):.2f} %"):
            self.assertIn(words, row.text)
        self.until("its model", lambda: "gcn on sbm" in row.text)
        fold = row.find_element(By.TAG_NAME, "button")
        fold.send_keys(Keys.ENTER)
        self.assertEqual(fold.get_attribute("aria-expanded"), "true")
        details = "return [...document.querySelectorAll('#jobs tr.member .detail:not(.bad)')].map(d => d.textContent).filter(Boolean)"
        found = self.until("what differs", lambda: len(self.script(details)) == 8 and "hidden" in self.script(details)[0] and self.script(details))
        self.assertIn("lr 0.01, hidden 8, seed 1", found)
        self.assertEqual(len(set(found)), 8)

    def test_columns_order_jobs_from_the_keyboard(self) -> None:
        self.open("?filter=sweep")
        self.fold("sweep").find_element(By.TAG_NAME, "button").click()
        ids = "return [...document.querySelectorAll('#jobs tr.job td.id')].map(cell => +cell.textContent)"
        head = self.browser.find_element(By.XPATH, "//th[button[text()='valid']]")
        by_id = {job["id"]: job["best_valid_metric"] or 0.0 for job in self.client.jobs(group="sweep")}
        for direction, expected in (("descending", sorted(by_id.values(), reverse=True)), ("ascending", sorted(by_id.values())), (None, None)):
            head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
            self.assertEqual(head.get_attribute("aria-sort"), direction)
            found = self.script(ids)
            self.assertEqual([by_id[job] for job in found] if expected else found, expected or sorted(by_id, reverse=True))

    def test_selected_jobs_are_compared_and_cancelled(self) -> None:
        jobs = [self.client.submit({**SHORT, "name": "chosen", "dataset": {"generator": "sbm", "nodes": 500}}, set={"train.lr": lr}) for lr in (0.1, 0.2)]
        self.open("?filter=chosen")
        self.until("both", lambda: len(self.names()) == 2)
        for box in self.browser.find_elements(By.CSS_SELECTOR, "#jobs input"):
            box.click()
        self.assertEqual(self.text("selected"), "2 selected")
        self.one("cancel").click()
        self.browser.switch_to.alert.accept()
        self.until_text("message", "2 jobs are being cancelled")
        for job in jobs:
            job.wait(PATIENCE_S, check=False)
            self.assertEqual(job.state, "CANCELLED")
        self.open("?filter=sweep")
        self.fold("sweep").find_element(By.TAG_NAME, "button").click()
        for box in self.browser.find_elements(By.CSS_SELECTOR, "#jobs tr.member input")[:3]:
            box.click()
        self.one("compare").click()
        self.until_text("summary", "3 runs, by accuracy")

    def test_a_script_in_a_name_is_a_text(self) -> None:
        self.open("?filter=onerror")
        self.until("the job", lambda: self.names() == [SCRIPT])
        self.assertEqual(self.script("return document.querySelectorAll('main img').length"), 0)
        self.open(f"job?job={self.done.id}")
        self.until_text("title", SCRIPT)
        self.assertEqual(self.script("return document.querySelectorAll('main img').length"), 0)
        self.assertIn(SCRIPT, self.browser.title)

    def test_a_running_job_is_drawn_as_it_goes(self) -> None:
        self._signal(signal.SIGCONT)
        self.addCleanup(self._signal, signal.SIGSTOP)
        self.open(f"job?job={self.running.id}")
        points = "return Math.max(0, ...Object.values(Chart.instances)[0]?.data.datasets.map(set => (set._data ?? set.data).length) ?? [])"
        first = self.until("curves", lambda: self.script(points))
        self.until("more points", lambda: self.script(points) > first)
        self.until_text("log-text", "epoch ")
        self.assertIn("RUNNING", self.text("state"))
        self.assertIn("compute", self.text("last"))
        self.assertEqual(self.script("return [...document.querySelectorAll('#curves h2')].map(h => h.textContent)"), ["loss", "accuracy", "seconds of an epoch"])
        self.browser.find_element(By.CSS_SELECTOR, "input[value=seconds]").click()
        self.assertEqual(self.script("return Object.values(Chart.instances)[0].options.scales.x.title.text"), "seconds of training")
        self.screenshot("running")

    def test_a_job_that_has_ended_shows_its_result(self) -> None:
        self.open(f"job?job={self.done.id}")
        self.until_text("panels", "Confusion of the test nodes")
        result = self.done.result()
        for words in ("Memory of 2 workers", "activations", "Traffic of an epoch by layer", "Traffic of an epoch from worker to worker"):
            self.assertIn(words, self.text("panels"))
        cells = self.script("return [...document.querySelectorAll('#panels section:last-child tbody tr')].map(r => [...r.querySelectorAll('td')].map(c => +c.textContent))")
        self.assertEqual(cells, result.json["confusion"]["matrix"])
        self.until_text("best", f"best: epoch {result.best['epoch'] + 1}, ")
        bars = self.script("return [...document.querySelectorAll('#last tr')].filter(r => r.querySelector('.fill')).map("
                           "r => [...r.querySelectorAll('.fill > div')].map(d => parseFloat(d.style.width)))")
        last = result.epochs()[-1]
        self.assertEqual(len(bars), 2)
        for shares, times in zip(bars, last["seconds_workers"], strict=True):
            for share, s in zip(shares, times, strict=True):
                self.assertAlmostEqual(share, min(100, 100 * s / last["epoch_s"]), 2)
        self.assertIn('generator = "sbm"', self.text("config"))
        self.assertIn("best.safetensors", self.text("files"))
        self.assertFalse(self.one("cancel").is_enabled())
        self.screenshot("job")

    def test_10000_epochs_are_drawn_at_once(self) -> None:
        self.long.wait(PATIENCE_S)
        began = self.open(f"job?job={self.long.id}")
        self.until("all epochs", lambda: self.script("return Object.values(Chart.instances)[0]?.data.datasets[0]._data?.at(-1)?.x") == LONG_EPOCHS)
        took = time.monotonic() - began
        print(f"\njob: {LONG_EPOCHS} epochs are drawn after {took:.2f} s")
        self.assert_few_requests()

    def test_links_have_curves_of_held_out_edges_alone(self) -> None:
        self.open(f"job?job={self.linked.id}")
        self.until_text("panels", "Memory of")
        headings = self.until("curves", lambda: self.script("return [...document.querySelectorAll('#curves h2')].map(h => h.textContent)"))
        self.assertEqual(headings, ["loss", "hits@10", "mrr", "seconds of an epoch"])
        sets = "return Object.values(Chart.instances)[1].data.datasets.map(set => [set.label, set.data.length])"
        self.assertEqual(self.script(sets)[:2], [["valid", 6], ["test", 6]])
        self.until_text("best", "best: epoch ")
        self.assertIn("logits.npy", self.text("files"))
        self.assertNotIn("Confusion", self.text("panels"))
        self.open("compare?group=links")
        self.until_text("summary", "2 settings, 2 runs, by hits@10")

    def test_a_failed_job_says_why(self) -> None:
        self.open(f"job?job={self.failed.id}")
        self.until_text("failure-text", "dataset.path: nowhere: No such file or directory")
        self.assertIn("FAILED", self.text("history"))
        self.assertTrue(self.one("resume").is_enabled())
        self.open(f"job?job={self.diverged.id}")
        self.until_text("failure-text", "Failed: ")
        self.until_text("failure-log", "epoch")
        self.assertFalse(self.one("cancel").is_enabled())
        self.open("job?job=999999")
        self.until_text("message", "there is no job '999999'")
        self.assertFalse(self.one("known").is_displayed())
        for button in ("cancel", "resume", "checkpoint", "scale", "workers"):
            self.assertFalse(self.one(button).is_enabled(), button)

    def test_buttons_cancel_resume_and_scale(self) -> None:
        job = self.client.submit({**LONG, "name": "buttons"}, set={"workers.count": 1, "partition.parts": 4}, priority=1)
        self.addCleanup(job.wait, PATIENCE_S, check=False)
        self.addCleanup(job.cancel)
        self.open(f"job?job={job.id}")
        self.until_text("state", "RUNNING")
        self.until_text("log-text", "epoch ")
        self.one("workers").clear()
        self.one("workers").send_keys("2")
        self.one("scale").click()
        self.until_text("facts", "2, 4 parts")
        self.until("the attempt with two workers", lambda: "attempt\n2, 0 of" in self.text("facts") and self.text("state") == "RUNNING")
        streams = "return performance.getEntriesByType('resource').filter(e => e.name.includes('api/events')).length"
        opened = self.script(streams)
        self.one("checkpoint").click()
        self.until_text("message", "checkpoint: done")
        self.assertEqual(self.script(streams), opened)  # curves are not sent anew
        self.one("cancel").click()
        self.until_text("state", "CANCELLED")
        self.until("what the page shows anew", lambda: "CANCELLED" in self.script("return document.getElementById('history').textContent"))
        self.assertEqual(self.text("message"), "cancel: done")  # the message of a user's action stays
        self.one("resume").click()
        self.until("it goes on", lambda: "CANCELLED" not in self.text("state"))

    def test_the_editor_checks_plans_and_submits(self) -> None:
        self.open("submit")
        self.until_text("plan", "34 nodes")
        editor = self.one("text")
        editor.clear()
        editor.send_keys('name = "typed"\ndataset.generator = "karate"\n[train]\nepoch = 3')
        self.until_text("check", "did you mean 'train.epochs'?")
        editor.send_keys(Keys.CONTROL, Keys.LEFT)
        editor.send_keys(Keys.END, Keys.BACKSPACE, Keys.BACKSPACE, Keys.BACKSPACE, Keys.BACKSPACE, "s = 3")
        self.until_text("check", "valid job file")
        self.until_text("key", "train.epochs: ")
        self.until_text("plan", "34 nodes")
        self.one("find").send_keys("label smoothing")
        self.until_text("keys", "train.label_smoothing")
        self.screenshot("submit")
        self.one("set").send_keys("train.epochs=2")
        self.one("name").send_keys(SCRIPT)
        self.one("text").send_keys(Keys.CONTROL, Keys.ENTER)
        self.until_text("message", "is submitted")
        job = self.client.job(SCRIPT)
        self.open(f"submit?job={job.id}")
        self.until("its settings", lambda: "train.epochs=2" in (self.one("set").get_property("value") or ""))
        self.assertIn("epochs = 3", self.one("text").get_property("value"))
        job.cancel()

    def test_a_group_is_compared(self) -> None:
        self.open("compare?group=sweep")
        self.until_text("summary", "4 settings, 8 runs")
        rows = self.script("return [...document.querySelectorAll('#lines tr')].map(r => [...r.cells].slice(1, 3).map(c => c.textContent))")
        self.assertEqual({tuple(row) for row in rows}, {(hidden, lr) for hidden in ("8", "16") for lr in ("0.01", "0.003")})
        sets = self.until("curves", lambda: self.script("return Object.values(Chart.instances)[0]?.data.datasets.map(set => [set.label, set.data.length])"))
        self.assertEqual([n for _, n in sets], [40] * 12)  # a mean, and both sides of its band
        ends = self.script("return Object.values(Chart.instances)[0].data.datasets.flatMap(set => (set._data ?? set.data).map(p => [p.x, p.y]))")
        self.assertEqual((min(x for x, _ in ends), max(x for x, _ in ends)), (1, 40))
        self.assertTrue(all(0 <= y <= 1 for _, y in ends))
        self.assertEqual(self.script("return Object.values(Chart.instances)[0].scales.x.ticks.map(tick => tick.value)"), list(range(5, 41, 5)))
        colours = self.script("return [[...document.querySelectorAll('.swatch')].map(s => s.style.background), "
                              "[...document.querySelectorAll('#axes polyline')].map(p => p.style.stroke).reverse()]")
        self.assertEqual(colours, [[f"var(--c{k})" for k in range(4)]] * 2)
        self.assertEqual(self.script("return document.querySelectorAll('#axes polyline').length"), 4)
        self.screenshot("compare")
        self.open("compare?group=nowhere")
        self.until_text("message", "nowhere")

    def faults(self, axe: str) -> list[str]:
        """What axe-core finds on the page."""
        self.script(axe)
        found = self.browser.execute_async_script("axe.run(document, {}).then(found => arguments[0](found.violations))")
        return [f"{fault['id']}: {node['html'][:200]} {node['failureSummary'][:300]}" for fault in found for node in fault["nodes"][:3]]

    def test_every_page_fits_a_phone_and_a_dark_room(self) -> None:
        """In each form nothing is wider than the page, and axe-core finds nothing: contrast, labels, headings, names."""
        if not AXE.is_file():
            self.skipTest("axe-core is missing: scripts/install-deps --system")
        axe, grounds, faults = AXE.read_text(encoding="utf-8"), set(), []
        for page, name, identity in (("", "jobs", "jobs"), ("?filter=sweep", "group", "jobs"), (f"job?job={self.done.id}", "job", "panels"),
                                     (f"job?job={self.diverged.id}", "failed", "failure-log"), (f"job?job={self.running.id}", "running", "last"),
                                     ("compare?group=sweep", "compare", "axes"), ("submit", "submit", "keys")):
            for width in (DESK, PHONE):
                for scheme in ("light", "dark"):
                    with self.emulated(width, scheme):
                        self.open(page)
                        self.until(identity, functools.partial(self.text, identity))
                        if name in ("job", "failed", "running"):
                            self.until("curves", lambda: self.script("return window.Chart && Object.keys(Chart.instances).length >= 3"))
                        if name == "group":
                            self.fold("sweep").find_element(By.TAG_NAME, "button").click()
                            self.browser.find_element(By.CSS_SELECTOR, "#jobs tr.member input").click()
                        if name != "submit":
                            time.sleep(0.5)  # curves are drawn, settings are there
                        self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width, page)
                        grounds.add((scheme, self.script("return getComputedStyle(document.body).backgroundColor")))
                        self.browser.save_screenshot(str(SCREENSHOTS / f"{name}-{scheme}-{width}.png"))
                        if (width, scheme) in ((DESK, "light"), (PHONE, "dark")):
                            faults += [f"{name} {scheme} {width}: {fault}" for fault in self.faults(axe)]
        self.assertEqual(faults, [], "\n".join(faults))
        self.assertEqual(len(grounds), 2)

    def test_a_curve_that_was_thinned_takes_new_points(self) -> None:
        """Points grow past what the chart draws, are halved, and grow again: each time the chart has the last ones."""
        self.open(f"job?job={self.done.id}")
        found = self.browser.execute_async_script("""
            const done = arguments[0];
            import(new URL("static/curves.js", location).href).then(({ LineChart }) => {
                const chart = new LineChart(document.body, "loss"), lasts = [];
                for (const length of [100, 20000, 200, 20000, 300, 400]) {
                    chart.show("epoch", [{ label: "train", colour: 0, points: Array.from({ length }, (_, x) => ({ x, y: length })) }]);
                    lasts.push([chart.chart.data.datasets[0].data.at(-1), chart.chart.getDatasetMeta(0).data.length]);
                }
                done(lasts);
            });""")
        self.assertEqual([(last["x"] + 1, last["y"]) for last, _ in found], [(length, length) for length in (100, 20000, 200, 20000, 300, 400)])
        drawn = [points for _, points in found]
        self.assertEqual([drawn[0], drawn[2], *drawn[4:]], [100, 200, 300, 400])
        self.assertLess(max(drawn), 20000)

    def test_points_stay_few_and_a_repeated_epoch_replaces_the_first(self) -> None:
        self.open(f"job?job={self.done.id}")
        found = self.browser.execute_async_script("""
            const done = arguments[0];
            import(new URL("static/curves.js", location).href).then(({ Epochs }) => {
                const epochs = new Epochs(), row = (epoch, valid) => [{ epoch, epoch_s: 0.5, loss: 1, valid_metric: valid }];
                for (let k = 0; k < 50000; k++) epochs.add(row(k, k === 777 ? 2 : 1), false);
                const many = [epochs.length, epochs.best.epoch, epochs.trained];
                epochs.add(row(704, null), false);
                done([many, epochs.best, epochs.last.epoch, Math.max(...epochs.epoch), epochs.points("valid_metric", "epoch").at(-1).x]);
            });""")
        self.assertEqual(found[0][1:], [777, 25000])
        self.assertLessEqual(found[0][0], 12000)
        self.assertEqual(found[1:], [None, 704, 704, 697])

    def test_no_request_leaves_the_machine(self) -> None:
        for page in ("", f"job?job={self.done.id}", "compare?group=sweep", "submit"):
            self.open(page)
            self.until("a request", lambda: len(self.script("return performance.getEntriesByType('resource')")) >= 3)
            for entry in self.script("return performance.getEntriesByType('resource').map(e => e.name)"):
                self.assertTrue(entry.startswith(self.base), entry)


class AnotherSite(PagesCase):
    """A page of another port of this machine, which is the same site to a cookie, knows the whole address but the token, and tries."""

    def test_can_neither_read_nor_change_nor_frame(self) -> None:
        page = b"<!doctype html><title>other</title><link rel=icon href=data:,>"

        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            self.addCleanup(other.shutdown)
            self.browser.get(f"http://127.0.0.1:{other.server_address[1]}/")
            found = self.browser.execute_async_script("""
                const [base, job, done] = arguments, tries = [];
                const attempt = (name, ask) => ask.then((r) => tries.push([name, r.type === "opaque" ? "sent" : "read"]), () => tries.push([name, "refused"]));
                const body = JSON.stringify({ job }), frame = document.createElement("iframe");
                frame.src = base;
                document.body.append(frame);
                Promise.all([
                  attempt("read", fetch(base + "api/about", { credentials: "include" })),
                  attempt("change", fetch(base + "api/cancel", { method: "POST", credentials: "include", headers: { "Content-Type": "application/json" }, body })),
                  attempt("blind change", fetch(base + "api/cancel", { method: "POST", credentials: "include", mode: "no-cors", body })),
                  attempt("import", import(base + "static/common.js")),
                  new Promise((loaded) => { frame.onload = loaded; }),
                ]).then(() => done([tries, frame.contentDocument === null]));""", self.base, self.running.id)
            self.assertEqual(dict(found[0])["read"], "refused")
            self.assertEqual(dict(found[0])["change"], "refused")
            self.assertEqual(dict(found[0])["import"], "refused")
            self.assertTrue(found[1])
            self.assertEqual(self.running.state, "RUNNING")
            other.shutdown()
        self.browser.get_log("browser")  # its refusals
        self.open("")
        self.until("rows", self.names)

    def test_a_wrong_token_opens_nothing(self) -> None:
        stranger = browser_start()
        self.addCleanup(stranger.quit)
        for address, words in ((self.base, "open the address"), (self.base + "?page-token=wrong", "the token is wrong"), (self.base.rpartition("/")[0][:-12], "open the")):
            stranger.get(address)
            self.assertIn(words, stranger.find_element(By.TAG_NAME, "body").text)


if __name__ == "__main__":
    unittest.main()
