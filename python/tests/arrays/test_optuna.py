"""A search by Optuna, whose pruner stops trainings."""

import optuna

import trainerd
from folders import FolderCase
from trainerd.fields import Epoch

GRAPH = {"generator": "sbm", "nodes": 2000, "noise": 2.0}
COMPLETE, PRUNED = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED


class Optuna(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.go_inside()
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    def test_prunes_a_training_that_falls_behind(self) -> None:
        def objective(trial: optuna.Trial) -> float:
            def report(epoch: Epoch) -> None:
                value = epoch["valid_metric"]
                assert value is not None
                trial.report(value, epoch["epoch"])
                if trial.should_prune():
                    raise optuna.TrialPruned
            result = trainerd.train(GRAPH, epochs=trial.suggest_int("epochs", 1, 100_000_000), lr=trial.suggest_float("lr", 0, 1),
                                    output=f"out-{trial.number}", progress=report)
            self.assertEqual(len(trial.study.get_trials()[trial.number].intermediate_values), result.json["epochs"])
            value = result.best["valid_metric"]
            assert value is not None
            return value
        study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=1, n_warmup_steps=10))
        study.enqueue_trial({"epochs": 30, "lr": 0.05})
        study.enqueue_trial({"epochs": 100_000_000, "lr": 0.0})  # learns nothing, and would not end
        study.optimize(objective, n_trials=2)
        self.assertEqual([trial.state for trial in study.trials], [COMPLETE, PRUNED])
        self.assertEqual(study.best_value, trainerd.Result("out-0").best["valid_metric"])
        self.assertEqual(max(study.trials[1].intermediate_values), 10)
        n_done = len(next(self.folder.glob("out-1/.run-*/metrics.jsonl")).read_text(encoding="utf-8").splitlines())
        self.assertEqual(trainerd.resume("out-1", epochs=n_done + 1, progress=False).last["epoch"], n_done)
