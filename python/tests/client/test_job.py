"""Waiting for a job and following it: its end, its failure, and a daemon that dies meanwhile."""
import threading

import trainerd
from daemon import LONG, PATIENCE_S, SHORT, DaemonCase


class AJob(DaemonCase):
    def restart(self) -> None:
        self.daemon.kill()
        self.daemon.start()

    def test_that_failed_raises_the_exception_of_its_exit_code(self) -> None:
        job = self.client.submit({"dataset": {"path": "nowhere"}})
        error = self.expect(trainerd.MissingInput, "FAILED, dataset.path: nowhere: No such file or directory", job.wait, PATIENCE_S)
        self.assertEqual((error.exit_code, error.job), (66, job.id))
        self.assertIsNone(job.wait(PATIENCE_S, check=False))
        self.expect(trainerd.MissingInput, "is FAILED: it has no result", job.result)

    def test_that_takes_longer_raises_a_timeout_and_runs_on(self) -> None:
        job = self.client.submit(LONG)
        next(event for event in job.watch() if event["event"] == "epoch")
        with self.assertRaisesRegex(TimeoutError, rf"job {job.id} \(long\) is (RUNNING|not yet known) after 0.2 s"):
            job.wait(0.2)
        self.assertEqual(job.state, "RUNNING")
        job.cancel()
        self.expect(trainerd.Interrupted, "a resume continues from its checkpoint", job.wait, PATIENCE_S)

    def test_gives_its_epochs_while_it_runs_and_afterwards(self) -> None:
        job = self.client.submit(SHORT)
        followed = list(job.follow(timeout=PATIENCE_S))
        self.assertEqual([epoch["epoch"] for epoch in followed], [0, 1, 2])
        self.assertEqual(followed, job.epochs())
        self.assertEqual(followed, job.result().epochs())
        self.assertEqual(job.epochs(tail=1), followed[2:])
        self.assertEqual(job.result().last["loss"], followed[-1]["loss"])

    def test_is_watched_over_the_death_of_its_daemon(self) -> None:
        job = self.client.submit(LONG)
        events = job.watch(timeout=PATIENCE_S)
        next(event for event in events if event["event"] == "epoch")
        self.restart()
        next(event for event in events if event["event"] == "job")
        next(event for event in events if event["event"] == "epoch")
        job.cancel()
        last = {}
        for last in events:
            pass
        self.assertEqual(last["job"]["state"], "CANCELLED")

    def test_is_followed_over_the_death_of_its_daemon_without_gaps_or_repeats(self) -> None:
        job = self.client.submit(LONG, name="followed")
        epochs, seen = job.follow(timeout=PATIENCE_S), []
        for epoch in epochs:
            seen.append(epoch["epoch"])
            if len(seen) == 5:
                self.restart()
            if len(seen) == 5 + 200:
                job.cancel()
        self.assertGreaterEqual(len(seen), 205)
        self.assertEqual(seen, list(range(len(seen))))

    def test_is_waited_for_over_the_death_of_its_daemon(self) -> None:
        job = self.client.submit(LONG, set={"train.epochs": 1000})
        next(event for event in job.watch() if event["event"] == "epoch")
        results: list[trainerd.Result] = []
        waiter = threading.Thread(target=lambda: results.append(job.wait(PATIENCE_S)))
        waiter.start()
        self.restart()
        waiter.join(PATIENCE_S)
        self.assertEqual([result.json["state"] for result in results], ["SUCCEEDED"])

    def test_says_that_the_daemon_has_not_come_back(self) -> None:
        impatient = trainerd.Client(self.daemon.address, patience=0.5)
        job = impatient.submit(LONG, name="alone")
        events = job.watch()
        next(event for event in events if event["event"] == "epoch")
        self.daemon.kill()
        self.expect(trainerd.Unavailable, "the job runs on, but no daemon has come back within 0.5 s", list, events)
        self.daemon.start()
        self.assertEqual(job.state, "RUNNING")
        self.client.cancel("alone")
        job.wait(PATIENCE_S, check=False)

    def test_ends_its_streams_with_the_daemon_where_patience_is_0(self) -> None:
        job = trainerd.Client(self.daemon.address, patience=0).submit(LONG, name="strict")
        events = job.watch()
        next(event for event in events if event["event"] == "epoch")
        self.daemon.kill()
        self.expect(trainerd.Unavailable, "the daemon closed the connection", list, events)
        self.daemon.start()
        self.client.cancel("strict")

    def test_predicts_with_a_trained_model(self) -> None:
        trained = self.client.submit(SHORT, name="model").wait(PATIENCE_S)
        result = self.client.submit(SHORT, name="model", predict=trained.folder).wait(PATIENCE_S)
        self.assertEqual((result.folder / "logits.npy").read_bytes(), (trained.folder / "logits.npy").read_bytes())
        self.assertEqual(result.test_metric, trained.test_metric)
        job = self.client.submit(SHORT, predict="runs/none")
        self.expect(trainerd.MissingInput, "predict.model: 'runs/none': No such file or directory", job.wait, PATIENCE_S)
