"""The client against a real daemon: requests, answers, refusals."""
import os
import pathlib
import unittest.mock

import trainerd
from daemon import LONG, PATIENCE_S, SHORT, Daemon, DaemonCase
from trainerd.connection import default_address
from trainerd.fields import AuditRow, Epoch, JobFields, Shown, User, Version, Workers


class AClient(DaemonCase):
    def test_submits_a_dict_and_its_job_leaves_results(self) -> None:
        job = self.client.submit(SHORT, name="dict")
        result = job.wait(PATIENCE_S)
        self.assertEqual((job.name, job.state), ("dict", "SUCCEEDED"))
        self.assertEqual(result.json["epochs"], 3)
        self.assertEqual(result.folder, self.folder / f"runs/dict-{job.id}")
        self.assertTrue((result.folder / "model.safetensors").is_file())

    def test_submits_a_file_by_its_path_with_settings_over_it(self) -> None:
        path = self.folder / "job.toml"
        path.write_text(trainerd.job_text(SHORT), encoding="utf-8")
        for given in (path, str(path), "job.toml"):
            job = self.client.submit(given, set={"train.epochs": 2, "name": 'a "name"'.replace(" ", "-").replace('"', "")})
            self.assertEqual((job.name, job.wait(PATIENCE_S).json["epochs"]), ("a-name", 2))
        self.assertEqual(self.client.submit(path, set=["train.epochs=1"]).wait(PATIENCE_S).json["epochs"], 1)

    def test_submits_a_text(self) -> None:
        text = trainerd.job_text(SHORT)
        job = self.client.submit(text, name="text")
        job.wait(PATIENCE_S)
        self.assertEqual(job.show()["config"], text)

    def test_with_a_program_has_its_text(self) -> None:
        path = self.folder / "own.gnn"
        text = 'def layer(v, out, a=1):\n    return linear("lin", v.x, out) + linear("b", max(e.src.x for e in v.in_edges), out)\n'
        path.write_text(text, encoding="utf-8")
        model = {"kind": "program", "program": str(path), "args": {"a": 2}}
        for job, settings in (({**SHORT, "model": model}, None), (SHORT, {"model.kind": "program", "model.program": str(path), "model.args.a": 2}),
                              ({**SHORT, "model": {**model, "program": trainerd.Program(text)}}, None)):
            submitted = self.client.submit(job, set=settings)
            path.unlink()
            done = submitted.wait(PATIENCE_S).json["job"]["model"]
            path.write_text(text, encoding="utf-8")
            self.assertEqual((done["kind"], done["program"], done["args"]), ("program", text, {"a": 2}))

    def test_with_a_program_that_is_wrong_is_refused_before_there_is_a_job(self) -> None:
        newest = self.client.jobs(limit=1)
        for model, words in (({"program": "def layer(v, out):\n    return liner('a', v.x, out)\n"}, "model.program:2:12: no function liner; did you mean"),
                             ({"program": "def layer(v, out):\n    return linear('a', v.x, out)\n", "args": {"t": 1}}, "model.args.t: the program has no")):
            self.expect(trainerd.JobFileError, words, self.client.submit, {**SHORT, "model": {"kind": "program", **model}})
        self.expect(trainerd.JobFileError, "no function liner", self.client.submit_group, SHORT,
                    [{}, {"model.kind": "program", "model.program": "def layer(v, out):\n    return liner('a', v.x, out)\n"}], group="wrong")
        with unittest.mock.patch.dict(os.environ, {"TRAINERD_BIN": "", "PATH": ""}):  # no programs: the daemon's plan says it
            job = self.client.submit({**SHORT, "model": {"kind": "program", **model}})
        self.expect(trainerd.JobFileError, words, job.wait, PATIENCE_S)
        self.assertEqual(len(self.client.jobs()), len(newest) and newest[0]["id"] + 1 or 1)

    def test_starts_relative_paths_of_a_job_in_the_folder_that_it_names(self) -> None:
        (self.folder / "elsewhere").mkdir()
        result = self.client.submit(SHORT, folder="elsewhere").wait(PATIENCE_S)
        self.assertEqual(result.folder.parent, self.folder / "elsewhere/runs")
        (self.folder / "elsewhere/own.gnn").write_text('def layer(v, out):\n    return linear("lin", v.x, out)\n', encoding="ascii")
        job = {**SHORT, "model": {"kind": "program", "program": "own.gnn"}}
        model = self.client.submit(job, folder="elsewhere").wait(PATIENCE_S).json["job"]["model"]
        self.assertIn("def layer", model["program"])
        self.expect(trainerd.MissingInput, f"'{self.folder}/own.gnn': No such file", self.client.submit, job)
        other = 'def layer(v, out):\n    return linear("other", v.x, out)\n'
        (self.folder / "elsewhere/other.gnn").write_text(other, encoding="ascii")
        jobs = self.client.submit_group(job, [{"train.seed": 2}, {"model.program": "other.gnn"}], group="programs", folder="elsewhere")
        self.assertEqual([one.wait(PATIENCE_S).json["job"]["model"]["program"] for one in jobs], [model["program"], other])

    def test_finds_the_first_job_of_a_submission_id(self) -> None:
        first = self.client.submit(SHORT, submission_id="once")
        self.assertEqual(self.client.submit(SHORT, submission_id="once").id, first.id)
        self.assertNotEqual(self.client.submit(SHORT).id, first.id)

    def test_submits_a_group_all_or_none(self) -> None:
        jobs = self.client.submit_group(SHORT, [{"train.seed": 1}, ["train.seed=2", "name=second"]], group="seeds", tags=["a", "b"], priority=1)
        self.assertEqual([job.wait(PATIENCE_S).json["seed"] for job in jobs], [1, 2])
        self.assertEqual([job.name for job in jobs], ["short", "second"])
        self.assertEqual(jobs[1].status()["tags"], ["a", "b"])
        self.assertEqual([fields["id"] for fields in self.client.jobs(group="seeds", tag="b")], [job.id for job in jobs][::-1])
        self.assertEqual(self.client.jobs(group="seeds", tag="c"), [])
        self.expect(trainerd.JobFileError, "unknown key 'sed'", self.client.submit_group, SHORT, [{"train.seed": 1}, {"train.sed": 2}], group="none")
        self.assertEqual(self.client.jobs(group="none"), [])

    def test_cancels_and_resumes_a_group(self) -> None:
        jobs = self.client.submit_group(LONG, [{"train.seed": seed} for seed in (1, 2)], group="long", set={"train.epochs": 300})
        stopped = set(self.client.cancel_group("long"))
        states = {job.id: (job.wait(PATIENCE_S, check=False), job.state)[1] for job in jobs}
        self.assertEqual({id for id, state in states.items() if state == "CANCELLED"}, stopped)
        self.assertEqual(set(self.client.resume_group("long")), stopped)
        self.assertEqual([job.wait(PATIENCE_S).json["epochs"] for job in jobs], [300, 300])
        self.expect(trainerd.MissingInput, "there is no group 'none'", self.client.cancel_group, "none")

    def test_refuses_a_wrong_key_in_the_daemon_s_words(self) -> None:
        error = self.expect(trainerd.JobFileError, "unknown key 'epoch' in [train]; did you mean 'train.epochs'?",
                            self.client.submit, {"train": {"epoch": 3}})
        self.assertEqual(error.exit_code, 78)
        self.expect(trainerd.JobFileError, "--set train.epoch: unknown key", self.client.submit, SHORT, set={"train.epoch": 3})

    def test_names_a_job_file_that_is_missing_or_no_text(self) -> None:
        self.expect(trainerd.MissingInput, "cannot open job file 'none.toml': No such file or directory", self.client.submit, "none.toml")
        (self.folder / "bytes.toml").write_bytes(b"name = \"\xff\"\n")
        self.expect(trainerd.JobFileError, "the job file 'bytes.toml' is not UTF-8", self.client.submit, "bytes.toml")
        (self.folder / "large.toml").write_text("#" * (1 << 20) + "\n", encoding="ascii")
        self.expect(trainerd.JobFileError, "'large.toml' is not a job file: it is longer than 1048576 bytes", self.client.submit,
                    pathlib.Path("large.toml"))

    def test_names_a_job_that_is_not_there(self) -> None:
        for ask in (self.client.status, self.client.show, self.client.job, self.client.cancel, self.client.workers):
            error = self.expect(trainerd.MissingInput, "there is no job 'nothing'", ask, "nothing")
            self.assertEqual(error.exit_code, 66)
        self.expect(trainerd.MissingInput, "there is no job", list, self.client.watch("nothing"))

    def test_lists_jobs_the_newest_first_over_several_answers(self) -> None:
        made = [self.client.submit(SHORT).id for _ in range(3)]
        listed = [fields["id"] for fields in self.client.jobs()]
        self.assertEqual(listed[:3], made[::-1])
        self.assertEqual(listed, sorted(listed, reverse=True))
        with unittest.mock.patch("trainerd.client.LIMIT_MOST", 2):
            self.assertEqual([fields["id"] for fields in self.client.jobs()], listed)
            self.assertEqual([fields["id"] for fields in self.client.jobs(limit=3)], listed[:3])
        self.assertEqual(self.client.jobs(limit=0), [])
        self.assertEqual(sum(self.client.counts().values()), len(listed))

    def test_asks_for_one_job_by_number_and_by_name(self) -> None:
        job = self.client.submit(SHORT, name="asked", priority=5, time_limit=900, max_restarts=2)
        for key in (job.id, "asked"):
            fields = self.client.status(key)
            self.assertEqual((fields["id"], fields["priority"], fields["time_limit_s"], fields["max_restarts"]), (job.id, 5, 900, 2))
        self.assertEqual(self.client.job("asked").id, job.id)

    def test_has_a_type_for_every_field_of_an_answer(self) -> None:
        job = self.client.submit(SHORT, set={"exchange.codec": "bf16", "exchange.guard_every": 1, "train.clip_norm": 1.0, "partition.parts": 2})
        job.wait(PATIENCE_S)
        self.assertEqual(set(job.status()), set(JobFields.__annotations__))
        self.assertEqual(set(job.epochs()[-1]), set(Epoch.__annotations__))
        for answer, kind in ((job.show(), Shown), (job.workers(), Workers), (self.client.version(), Version)):
            self.assertEqual(set(answer) - {"id", "ok"}, set(kind.__annotations__))

    def test_shows_the_daemon_and_its_gpus(self) -> None:
        self.assertEqual(self.client.version()["version"], trainerd.__version__)
        self.assertEqual(self.client.gpus(), [])

    def test_shows_users_with_their_jobs_and_shares(self) -> None:
        self.client.submit(SHORT).wait(PATIENCE_S)
        user = self.client.users()[0]
        self.assertEqual((user["uid"], user["queued"], user["running"]), (os.getuid(), 0, 0))
        self.assertEqual(set(user), set(User.__annotations__))

    def test_shows_administrators_who_changed_what(self) -> None:
        job = self.client.submit(SHORT)
        row = self.client.audit(1)[0]
        self.assertEqual((row["what"], row["job"], row["exit_code"], row["uid"]), ("submit", job.id, 0, os.getuid()))
        self.assertEqual(set(row), set(AuditRow.__annotations__))
        job.wait(PATIENCE_S)  # the next test counts what runs

    def test_cancels_scales_and_resumes_a_job_and_shows_its_workers(self) -> None:
        job = self.client.submit(LONG, set={"partition.parts": 2, "workers.count": 2, "train.epochs": 1000})
        next(event for event in job.watch() if event["event"] == "epoch")
        self.assertEqual([worker["rank"] for worker in job.workers()["workers"]], [0, 1])
        job.checkpoint()
        job.scale(1)
        job.cancel()
        self.expect(trainerd.Interrupted, "CANCELLED", job.wait, PATIENCE_S)
        self.assertIsNone(job.wait(PATIENCE_S, check=False))
        job.cancel()
        self.assertEqual(job.state, "CANCELLED")
        job.resume()
        self.assertEqual(job.wait(PATIENCE_S).json["epochs"], 1000)
        self.assertEqual(job.status()["workers"], 1)

    def test_cancels_a_job_that_has_ended_without_an_error(self) -> None:
        job = self.client.submit(SHORT, name="quick")
        job.wait(PATIENCE_S)
        job.cancel()
        self.client.cancel("quick")
        self.assertEqual(job.state, "SUCCEEDED")
        self.expect(trainerd.UsageError, "is SUCCEEDED; expected one that is RUNNING", job.checkpoint)

    def test_follows_a_log_to_the_end_of_its_job(self) -> None:
        job = self.client.submit(SHORT)
        self.assertIn("done in", "".join(job.logs(follow=True)))
        self.assertEqual("".join(job.logs(tail=1)).count("\n"), 1)
        self.assertIsInstance("".join(job.logs(rank=0)), str)

    def test_finds_its_address_in_the_environment(self) -> None:
        with unittest.mock.patch.dict(os.environ, {"TRAINERD_TO": self.daemon.address}):
            self.assertEqual(trainerd.Client().version()["version"], trainerd.__version__)
        with unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": "/run/user/7"}), unittest.mock.patch("os.geteuid", lambda: 7):
            self.assertEqual(default_address(), "unix:/run/user/7/trainerd.sock")
        with unittest.mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": "relative"}), unittest.mock.patch("os.geteuid", lambda: 7):
            self.assertEqual(default_address(), "unix:/tmp/trainerd-7/trainerd.sock")
        with unittest.mock.patch("os.geteuid", lambda: 0):
            self.assertEqual(default_address(), "unix:/run/trainerd/trainerd.sock")

    def test_finds_the_user_s_daemon_without_an_address(self) -> None:
        runtime = self.folder / "runtime"
        runtime.mkdir()
        environment = {"XDG_RUNTIME_DIR": str(runtime), "TRAINERD_TO": ""}
        with unittest.mock.patch.dict(os.environ, environment), \
                unittest.mock.patch("trainerd.connection.default_address", lambda: f"unix:{runtime}/trainerd.sock"):
            self.expect(trainerd.Unavailable, f"Start one with trainerd --listen unix:{runtime}/trainerd.sock", trainerd.Client().version)
            daemon = Daemon(runtime, f"unix:{runtime}/trainerd.sock")
            self.addCleanup(daemon.end)
            self.assertEqual(trainerd.Client().version()["jobs"], 0)
            with unittest.mock.patch("os.geteuid", lambda: 4242), unittest.mock.patch("struct.unpack", lambda *_: (1, 17, 17)):
                self.expect(trainerd.Unavailable, "is neither this user's nor root's", trainerd.Client().version)

    def test_says_at_once_that_no_daemon_answers(self) -> None:
        nowhere = trainerd.Client("unix:/nowhere/socket")
        self.expect(trainerd.Unavailable, "no daemon answers on unix:/nowhere/socket: No such file or directory", nowhere.submit, SHORT)
        self.expect(trainerd.Unavailable, "no daemon answers on", list, nowhere.watch(1))

    def test_refuses_wrong_arguments_before_it_asks(self) -> None:
        self.expect(trainerd.UsageError, "limit is -1, expected 0 or more", self.client.jobs, limit=-1)
        self.expect(trainerd.UsageError, "'nmae' is not an option of submit, expected one of name, group", self.client.submit, SHORT, nmae="x")
        self.expect(trainerd.UsageError, "submit_group needs group", self.client.submit_group, SHORT, [{}])
        self.expect(trainerd.UsageError, "predict is empty", self.client.submit, SHORT, predict="")
        self.expect(trainerd.UsageError, "cannot be written as JSON", self.client.ask, "status", job=object())
