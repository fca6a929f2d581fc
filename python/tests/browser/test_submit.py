"""The page that submits jobs, and all pages behind a proxy, in headless Chromium."""
import pathlib
import socket
import subprocess
import unittest

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import trainerd
from daemon import PROGRAMS, SECRET, SHORT, Daemon, secret_write
from proxy import Proxy
from test_pages import PagesCase, browser_start

PHONE = 390
WRONG = 'name = "typed"\ndataset.generator = "karate"\n[train]\nepoch = 3\n[model]\nhidden = -4'


class LightCase(PagesCase):
    """With a few short jobs only."""

    @classmethod
    def setUpClass(cls) -> None:
        super(PagesCase, cls).setUpClass()
        for name in ("older", "newer", "older"):
            trainerd.Client(cls.daemon.address).submit({**SHORT, "name": name}, set={"train.epochs": 2}).wait()
        cls._begin()

    @classmethod
    def _begin(cls) -> None:
        cls._serve()
        cls.browser = browser_start()
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.get(cls.address)

    def choose(self, words: str) -> None:
        option = self.until(words, lambda: [one for one in self.browser.find_elements(By.CSS_SELECTOR, "#template option") if words in (one.text or "")])
        option[0].click()


class AnEditor(LightCase):
    def test_has_mistakes_in_red_at_their_lines_and_leads_there(self) -> None:
        self.open("submit")
        self.until_text("plan", "34 nodes")
        self.one("text").clear()
        self.one("text").send_keys(WRONG)
        self.one("set").send_keys("train.lrr=1")
        self.until_text("check", "train.lrr")
        self.until_text("short", "3 mistakes")
        self.assertEqual(self.script("return [...document.querySelectorAll('#numbers .wrong')].map(line => line.textContent)"), ["4", "6"])
        places = self.script("""
            const top = (one) => Math.round(one.getBoundingClientRect().top), colour = (one) => getComputedStyle(one).color;
            return [...document.querySelectorAll("#marks .wrong")].map((mark, at) => [mark.querySelector(".why").textContent, colour(mark.querySelector(".why")),
              top(mark) - top(document.querySelectorAll("#numbers .wrong")[at])]);""")
        self.assertIn("unknown key 'epoch'", places[0][0])
        self.assertIn("model.hidden is -4", places[1][0])
        bad = self.script("const one = document.createElement('i'); one.style.color = 'var(--bad)'; document.body.append(one); return getComputedStyle(one).color")
        for _, colour, below in places:
            self.assertEqual((colour, below), (bad, 0))
        self.screenshot("submit-mistakes")
        buttons = self.browser.find_elements(By.CSS_SELECTOR, "#check button")
        selected = "const one = document.activeElement; return [one.id, one.value.slice(one.selectionStart, one.selectionEnd)]"
        for button, place in zip(buttons, (["text", "epoch = 3"], ["text", "-4"], ["set", "train.lrr=1"]), strict=True):
            button.click()
            self.assertEqual(self.script(selected), place)
        buttons[0].click()
        self.browser.switch_to.active_element.send_keys("epochs = 3")
        self.until("one line less", lambda: self.script("return [...document.querySelectorAll('#numbers .wrong')].map(line => line.textContent)") == ["6"])

    def test_begins_with_a_job_file_or_with_a_job_of_this_user(self) -> None:
        self.open("submit")
        self.choose("quickstart")
        self.until("its text", lambda: 'generator = "sbm"' in str(self.one("text").get_property("value")))
        self.until_text("plan", "100000 nodes")
        newest = {job["name"]: job["id"] for job in reversed(self.client.jobs())}
        self.choose(f"older ({newest['older']})")
        self.until("its settings", lambda: self.one("set").get_property("value") == "train.epochs=2")
        self.assertIn('name = "older"', str(self.one("text").get_property("value")))
        self.assertEqual(len([one for one in self.browser.find_elements(By.CSS_SELECTOR, "#template option") if "older" in (one.text or "")]), 1)
        self.until_text("plan", "34 nodes")

    def test_sweeps(self) -> None:
        self.open("submit")
        self.until_text("plan", "34 nodes")
        self.one("name").send_keys("swept")
        self.one("sweep").send_keys("train.lr=0.01,0.003\ntrain.seed=1,1")
        self.until_text("check", "train.seed has a value twice")
        self.browser.find_element(By.CSS_SELECTOR, "#check button").click()
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "sweep")
        self.one("sweep").clear()
        self.one("sweep").send_keys("train.lr=0.01,0.003\ntrain.epochs=0,x,2")
        self.until_text("check", "train.epochs")
        self.one("sweep").clear()
        self.one("sweep").send_keys("train.lr=0.01,0.003\ntrain.epochs=2,3,4")
        self.until_text("submit", "submit 6 jobs")
        self.until_text("check", "6 jobs")
        self.one("sweep").send_keys(Keys.CONTROL, Keys.ENTER)
        self.until_text("message", "6 jobs of group swept-")
        group = self.text("message").split()[4]
        jobs = self.client.jobs(group=group)
        self.assertEqual(len(jobs), 6)
        self.assertEqual({job["epochs"] for job in jobs}, {2, 3, 4})
        for job in jobs:
            self.client.job(job["id"]).wait()
        self.browser.find_element(By.CSS_SELECTOR, "#message a").click()
        self.until_text("summary", "6 settings, 6 runs")

    def test_a_phone_shows_the_plan(self) -> None:
        with self.emulated(PHONE, "light"):
            self.open("submit")
            self.until_text("plan", "34 nodes")
            seen = "const box = document.getElementById(arguments[0]).getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight && box.width > 0"
            self.assertTrue(self.script(seen, "short"))  # without scrolling
            self.assertIn("of memory, 2 workers", self.text("short"))
            self.assertTrue(self.script(seen, "submit"))
            tops = self.script("return ['text', 'check', 'plan', 'set', 'find'].map(id => document.getElementById(id).getBoundingClientRect().top)")
            self.assertEqual(tops, sorted(tops))
            self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), PHONE)
            self.assertLessEqual(self.script("const plan = document.getElementById('plan'); return plan.scrollWidth - plan.clientWidth"), 0)


class BehindAProxy(LightCase):
    """With TLS, a prefix and another name, as behind a hub of notebooks."""

    @classmethod
    def _begin(cls) -> None:
        folder = cls.folder / "tcp"
        folder.mkdir()
        secret_write(folder / "secret", SECRET)
        Daemon(folder, "tcp:127.0.0.1:0", f"secret_file={folder / 'secret'}").end()  # it makes a certificate
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        proxy = Proxy(port, "/user/ada/proxy/8000", folder / "state/tls.pem")
        cls.addClassCleanup(proxy.close)
        server = subprocess.Popen([str(PROGRAMS / "trainctl"), "web", "--to", cls.daemon.address, "--port", str(port), "--base-url", "/user/ada/proxy/8000",
                                   "--allow-host", f"hub.example:{proxy.port}"], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        for cleanup in (server.wait, server.terminate, server.stdout.close):
            cls.addClassCleanup(cleanup)
        server.stdout.readline()
        cls.address = server.stdout.readline().strip()
        cls.base = cls.address.partition("?")[0]
        cls.browser = browser_start("--ignore-certificate-errors", "--host-resolver-rules=MAP hub.example 127.0.0.1")
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.get(cls.address)

    def test_all_pages_and_changes_work(self) -> None:
        self.assertTrue(self.base.startswith("https://hub.example:"), self.base)
        self.open("")
        self.until("the jobs", lambda: "newer" in self.names())
        cookie = self.browser.get_cookies()[0]
        self.assertTrue(cookie["secure"] and cookie["httpOnly"])
        self.assertEqual(str(pathlib.PurePosixPath(cookie["path"]).parent), "/user/ada/proxy/8000")
        self.open("job?job=1")
        self.until("curves", lambda: self.script("return Object.values(Chart.instances)[0]?.data.datasets.length"))
        self.open("submit")
        self.until_text("plan", "34 nodes")
        self.one("name").send_keys("proxied")
        self.one("submit").click()
        self.until_text("message", "is submitted")
        self.client.job("proxied").cancel()


if __name__ == "__main__":
    unittest.main()
