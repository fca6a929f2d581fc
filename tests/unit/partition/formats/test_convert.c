/* Folders that the Python package (python/) writes of objects that look like each library's, loaded again. Skipped where Debian's
 * python3, which scripts/install-deps --test prepares, has no numpy. */
#include "tests/unit/partition/fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PYTHON "/usr/bin/python3"

static const char script[] =
    "import os, sys, types\n"
    "sys.path.insert(0, 'python')\n"
    "sys.dont_write_bytecode = True\n"
    "import numpy as np, trainerd as t\n"
    "root = sys.argv[1]\n"
    "edges = np.array([[0, 1, 2], [1, 2, 0]])\n"
    "x = np.arange(6.0).reshape(3, 2)\n"
    "masks = {n: np.array(m, bool) for n, m in (('train_mask', [1, 0, 0]), ('val_mask', [0, 1, 0]), ('test_mask', "
    "[0, 0, "
    "1]))}\n"
    "w = np.array([0.5, 2.0, 1.0])\n"
    "pyg = types.SimpleNamespace(edge_index=edges, edge_weight=w, x=x, y=np.array([1, 0, 2]), **masks)\n"
    "t.from_pyg(pyg, root + '/pyg', name='three')\n"
    "pyg.edge_weight = None\n"
    "pyg.train_mask = np.array([[1, 0], [0, 1], [0, 0]], bool)\n"
    "t.from_pyg(pyg, root + '/columns')\n"
    "np.savez(root + '/two.npz', edges=np.array([[0, 1], [1, 2], [2, 0]]), node_features=x, node_labels=np.array([1, "
    "0, 2]),\n"
    "  train_masks=[[1, 0, 0], [0, 1, 0]], val_masks=[[0, 1, 0], [0, 0, 1]], test_masks=[[0, 0, 1], [1, 0, 0]])\n"
    "t.from_yandex(root + '/two.npz', root + '/yandex')\n"
    "class Dgl:\n"
    "    etypes = ['_E']\n"
    "    edata = dict(w=w)\n"
    "    ndata = dict(feat=x.astype(np.float16), label=np.array([1, 0, 2]), **masks)\n"
    "    def edges(self): return edges[0], edges[1]\n"
    "t.from_dgl(Dgl(), root + '/dgl')\n"
    "class Ogb:\n"
    "    def __getitem__(self, i):\n"
    "        return dict(edge_index=edges, edge_weight=w[:, None], node_feat=x), np.array([[1.0], [float('nan')], "
    "[2.0]])\n"
    "    def get_idx_split(self): return dict(train=np.array([0]), valid=np.array([1]), test=np.array([2]))\n"
    "t.from_ogb(Ogb(), root + '/ogb')\n";

TestSuite(convert, .init = folder_make, .fini = folder_remove);

/* A script that takes the test's folder, in which it makes others. */
static void script_run(const char *text)
{
    if (system(PYTHON " -c 'import numpy' 2>/dev/null") != 0) {
        cr_skip_test("/usr/bin/python3 has no numpy: scripts/install-deps --test");
    }
    fixture_bytes("script.py", text, strlen(text));
    char command[1200];
    snprintf(command, sizeof command, PYTHON " %s %s", folder_path("script.py"), folder);
    cr_assert_eq(system(command), 0);
}

Test(convert, objects_of_each_package_become_folders_that_load)
{
    script_run(script);
    static const char *const names[] = {"pyg", "columns", "dgl", "ogb"};
    for (int i = 0; i < 4; i++) {
        struct job job = fixture_job();
        snprintf(job.dataset.path, sizeof job.dataset.path, "%s", folder_path(names[i]));
        struct dataset dataset;
        cr_assert_eq(dataset_load(&job, &dataset), STATUS_OK, "%s", status_reason());
        bool weighted = i != 1; /* stored loops of weight 1 come with weights */
        cr_assert(dataset.n_node == 3 && dataset.n_edge == (weighted ? 6 : 3) && dataset.n_feature == 2 &&
                  dataset.n_class == 3);
        cr_assert_eq(dataset.weighted, weighted);
        cr_assert(!weighted ||
                  (dataset.strength[0] == 2.0f && dataset.strength[1] == 1.5f && dataset.strength[2] == 3.0f));
        cr_assert(dataset.labels[0] == 1 && dataset.labels[1] == (i == 3 ? -1 : 0) && dataset.labels[2] == 2);
        cr_assert(dataset.split[0] == 1 && dataset.split[1] == 2 && dataset.split[2] == 3);
        float row[2];
        dataset_feature_rows(&dataset, (uint32_t[]){2}, 1, row);
        cr_assert(row[0] == 4 && row[1] == 5);
        cr_assert_str_eq(dataset.name, i == 0 ? "three" : names[i]);
        dataset_release(&dataset);
    }
}

Test(convert, all_splits_are_kept_and_dataset_split_chooses_one)
{
    script_run(script);
    static const uint8_t expected[2][3] = {{1, 2, 3}, {3, 1, 2}};
    for (int64_t k = 0; k < 2; k++) {
        struct job job = fixture_job();
        struct dataset dataset;
        job.dataset.split = k;
        snprintf(job.dataset.path, sizeof job.dataset.path, "%s", folder_path("yandex"));
        cr_assert_eq(dataset_load(&job, &dataset), STATUS_OK, "%s", status_reason());
        cr_assert(dataset.n_node == 3 && dataset.n_edge == 6 && dataset.n_feature == 2);
        cr_assert_arr_eq(dataset.split, expected[k], 3);
        cr_assert(dataset.splits.n == 2 && dataset.splits.index == k);
        dataset_release(&dataset);
    }
}

static const char numbers_script[] =
    "import sys\n"
    "sys.path.insert(0, 'python')\n"
    "sys.dont_write_bytecode = True\n"
    "import numpy as np, trainerd as t\n"
    "t.from_arrays(sys.argv[1] + '/numbers', edges=np.array([[0, 1], [1, 2]]),\n"
    "    labels=[0.5, np.nan, -1.0], features=np.eye(3), train=[0, 2], numbers=True)\n";

Test(convert, labels_that_are_no_whole_numbers_are_written_as_they_are_where_they_are_asked_for)
{
    script_run(numbers_script);
    struct job job = fixture_job();
    job.train.loss = JOB_LOSS_MSE;
    snprintf(job.dataset.path, sizeof job.dataset.path, "%s", folder_path("numbers"));
    struct dataset d = fixture_loaded(&job);
    cr_expect(d.n_class == 1 && d.label_rows[0] == 0.5F && isnan(d.label_rows[1]) && d.label_rows[2] == -1.0F);
    dataset_release(&d);
}

/* Two papers with features and labels, one author without either; one relation each way. */
static const char typed_script[] =
    "import sys, types\n"
    "sys.path.insert(0, 'python')\n"
    "sys.dont_write_bytecode = True\n"
    "import numpy as np, trainerd as t\n"
    "root = sys.argv[1]\n"
    "x, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1, 0])\n"
    "writes, by = np.array([[0], [1]]), np.array([[0, 1], [0, 0]])\n"
    "train, test = np.array([True, False]), np.array([False, True])\n"
    "stores = dict(paper=types.SimpleNamespace(num_nodes=2, x=x, y=y, train_mask=train, test_mask=test),\n"
    "              author=types.SimpleNamespace(num_nodes=1))\n"
    "stores[('author', 'writes', 'paper')] = types.SimpleNamespace(edge_index=writes, edge_attr=np.array([[5.0, "
    "6.0]]))\n"
    "stores[('paper', 'by', 'author')] = types.SimpleNamespace(edge_index=by, edge_attr=np.eye(2))\n"
    "class Hetero:\n"
    "    node_types, edge_types = ['author', 'paper'], [k for k in stores if isinstance(k, tuple)]\n"
    "    def __getitem__(self, k): return stores[k]\n"
    "t.from_pyg(Hetero(), root + '/pyg')\n"
    "class Edges:\n"
    "    def __call__(self, etype): return tuple(stores[etype].edge_index)\n"
    "    def __getitem__(self, etype): return types.SimpleNamespace(data=dict(feat=stores[etype].edge_attr))\n"
    "class Dgl:\n"
    "    ntypes, etypes, edges = ['author', 'paper'], ['writes', 'by'], Edges()\n"
    "    canonical_etypes = Hetero.edge_types\n"
    "    nodes = dict(author=types.SimpleNamespace(data={}),\n"
    "                 paper=types.SimpleNamespace(data=dict(feat=x, label=y, train_mask=train, test_mask=test)))\n"
    "    def num_nodes(self, t): return stores[t].num_nodes\n"
    "t.from_dgl(Dgl(), root + '/dgl')\n"
    "class Ogb:\n"
    "    def __getitem__(self, i):\n"
    "        return dict(edge_index_dict={k: stores[k].edge_index for k in Hetero.edge_types}, "
    "node_feat_dict=dict(paper=x),\n"
    "                    edge_feat_dict={k: stores[k].edge_attr for k in Hetero.edge_types},\n"
    "                    num_nodes_dict=dict(author=1, paper=2)), dict(paper=y[:, None])\n"
    "    def get_idx_split(self): return dict(train=dict(paper=np.array([0])), test=dict(paper=np.array([1])))\n"
    "t.from_ogb(Ogb(), root + '/ogb')\n";

Test(convert, graphs_of_several_types_become_folders_that_load)
{
    script_run(typed_script);
    static const char *const names[] = {"pyg", "dgl", "ogb"};
    for (int i = 0; i < 3; i++) {
        struct job job = fixture_job();
        job.model.kind = JOB_KIND_RGCN;
        snprintf(job.dataset.path, sizeof job.dataset.path, "%s", folder_path(names[i]));
        struct dataset d;
        cr_assert_eq(dataset_load(&job, &d), STATUS_OK, "%s", status_reason());
        cr_assert(d.n_node == 3 && d.n_edge == 3 && d.n_relation == 2 && d.n_feature == 3 && d.n_class == 2);
        const uint32_t indices[] = {1, 2, 0};
        const uint16_t types[] = {1, 1, 0};
        cr_assert_arr_eq(d.indices, indices, sizeof indices);
        cr_assert_arr_eq(d.edge_type, types, sizeof types);
        cr_assert(d.labels[0] == -1 && d.labels[1] == 1 && d.labels[2] == 0);
        cr_assert(d.split[0] == 0 && d.split[1] == 1 && d.split[2] == 3);
        float row[3];
        dataset_feature_rows(&d, (uint32_t[]){2}, 1, row);
        cr_assert(row[0] == 0 && row[1] == 3 && row[2] == 4);
        dataset_release(&d);
        job.model.kind = JOB_KIND_TRANSFORMER;
        cr_assert_eq(dataset_load(&job, &d), STATUS_OK, "%s", status_reason());
        const float *written = dataset_edge_features(&d, d.edge_row[d.indptr[2]]);
        cr_assert(d.n_edge == 3 && d.n_edge_feature == 2 && written[0] == 5 && written[1] == 6);
        dataset_release(&d);
    }
}
