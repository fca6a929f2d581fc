"""Trainings in MLflow, in a local folder."""
from typing import Any

import mlflow
import numpy as np

import trainerd
from folders import FolderCase, random_data
from trainerd.fields import Epoch

KEYS: dict[str, Any] = {"hidden": 8, "epochs": 4, "parts": 2, "progress": False}


class Mlflow(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.go_inside()
        mlflow.set_tracking_uri(str(self.folder / "mlruns"))
        mlflow.set_experiment(experiment_id=mlflow.create_experiment("trainings"))

    def only_run(self) -> Any:
        run, = mlflow.search_runs(output_format="list")
        return run

    def test_has_a_run_with_parameters_and_each_epoch(self) -> None:
        result = trainerd.train(random_data(), tracker=trainerd.trackers.Mlflow(), **KEYS)
        run = self.only_run()
        self.assertEqual(run.data.params, {"model.hidden": "8", "train.epochs": "4", "partition.parts": "2"})
        self.assertEqual((run.info.status, run.info.run_name, run.data.tags["trainerd.folder"]), ("FINISHED", "train", str(result.folder)))
        client, epochs = mlflow.MlflowClient(), [dict(epoch) for epoch in result.epochs()]
        for name in ("loss", "valid_metric", "lr"):
            lines = [(line.step, line.value) for line in client.get_metric_history(run.info.run_id, name)]
            self.assertEqual(lines, [(epoch["epoch"], epoch[name]) for epoch in epochs])
        self.assertEqual((run.data.metrics["best_valid"], run.data.metrics["best_test"]), (result.best["valid_metric"], result.test_metric))
        self.assertIsNone(mlflow.active_run())

    def test_has_metrics_of_links_by_names_that_mlflow_takes(self) -> None:
        data = random_data()
        data.y = None
        result = trainerd.train(data, task="link", metrics=["hits@10", "mrr"], tracker=trainerd.trackers.Mlflow(), **KEYS)
        found, epoch = self.only_run().data.metrics, dict(result.epochs()[-1])
        self.assertEqual((found["valid_hits_at_10"], found["test_mrr"]), (epoch["valid_hits@10"], epoch["test_mrr"]))
        self.assertNotIn("train_metric", found)

    def test_within_a_run_has_a_child_of_it(self) -> None:
        program = trainerd.Program.from_text("def layer(v, out):\n" + "    # why\n" * 100 + "    return linear('lin', v.x, out)\n")
        with mlflow.start_run() as parent:
            trainerd.train(random_data(), model=program, tracker=trainerd.trackers.Mlflow(run_name="child", tags={"page": "1"}), **KEYS)
            self.assertEqual(mlflow.active_run().info.run_id, parent.info.run_id)
        child, = (run for run in mlflow.search_runs(output_format="list") if run.info.run_id != parent.info.run_id)
        self.assertEqual((child.info.run_name, child.data.tags["page"], child.data.tags["mlflow.parentRunId"]), ("child", "1", parent.info.run_id))
        self.assertEqual(child.data.params["model.program"], program.text[:500])

    def test_is_not_left_open_where_its_begin_fails(self) -> None:
        trainerd.train(random_data(), tracker=trainerd.trackers.Mlflow(), **KEYS)
        again = trainerd.trackers.Mlflow(run_id=self.only_run().info.run_id)
        with self.assertRaisesRegex(mlflow.MlflowException, "model.hidden"):  # a run's parameters do not change
            trainerd.train(random_data(), tracker=again, **{**KEYS, "hidden": 9})
        self.assertIsNone(mlflow.active_run())
        self.assertEqual(self.only_run().info.status, "FAILED")

    def test_has_the_failure_of_one_that_fails(self) -> None:
        def fail(_: Epoch) -> None:
            raise OverflowError
        with self.assertRaises(OverflowError):
            trainerd.train(random_data(), tracker=trainerd.trackers.Mlflow(), **{**KEYS, "epochs": 100_000_000, "progress": fail})
        run = self.only_run()
        self.assertEqual(run.info.status, "FAILED")
        self.assertTrue(np.isfinite(run.data.metrics["loss"]))
