/* scripts/convert_dataset.py on objects that look like each package's, loaded again. Skipped where python3 has no numpy. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static const char script[] =
    "import os, sys, types\n"
    "sys.path.insert(0, 'scripts')\n"
    "sys.dont_write_bytecode = True\n"
    "import numpy as np, convert_dataset as c\n"
    "root = sys.argv[1]\n"
    "edges = np.array([[0, 1, 2], [1, 2, 0]])\n"
    "x = np.arange(6.0).reshape(3, 2)\n"
    "masks = {n: np.array(m, bool) for n, m in (('train_mask', [1, 0, 0]), ('val_mask', [0, 1, 0]), ('test_mask', [0, 0, 1]))}\n"
    "pyg = types.SimpleNamespace(edge_index=edges, x=x, y=np.array([1, 0, 2]), **masks)\n"
    "c.save(root + '/pyg', c.from_pyg(pyg), name='three')\n"
    "pyg.train_mask = np.array([[1, 0], [0, 1], [0, 0]], bool)\n"
    "c.save(root + '/columns', c.from_pyg(pyg))\n"
    "class Dgl:\n"
    "    etypes = ['_E']\n"
    "    ndata = dict(feat=x.astype(np.float16), label=np.array([1, 0, 2]), **masks)\n"
    "    def edges(self): return edges[0], edges[1]\n"
    "c.save(root + '/dgl', c.from_dgl(Dgl()))\n"
    "class Ogb:\n"
    "    def __getitem__(self, i): return dict(edge_index=edges, node_feat=x), np.array([[1.0], [float('nan')], [2.0]])\n"
    "    def get_idx_split(self): return dict(train=np.array([0]), valid=np.array([1]), test=np.array([2]))\n"
    "c.save(root + '/ogb', c.from_ogb(Ogb()))\n"
    "try:\n"
    "    c.save(root + '/bad', dict(edges=edges + 1, labels=np.array([1, 0, 2]), train=np.array([0])))\n"
    "except SystemExit as e:\n"
    "    sys.exit(0 if 'edges name nodes 1 to 3, expected 0 to 2' in str(e) else 3)\n"
    "sys.exit(4)\n";

TestSuite(convert, .init = folder_make, .fini = folder_remove);

Test(convert, objects_of_each_package_become_folders_that_load)
{
    if (system("python3 -c 'import numpy' 2>/dev/null") != 0) {
        cr_skip_test("python3 has no numpy");
    }
    fixture_bytes("script.py", script, sizeof script - 1);
    char command[1200];
    snprintf(command, sizeof command, "python3 %s %s 2>/dev/null", folder_path("script.py"), folder);
    cr_assert_eq(system(command), 0);
    static const char *const names[] = {"pyg", "columns", "dgl", "ogb"};
    for (int i = 0; i < 4; i++) {
        struct job job = fixture_job();
        snprintf(job.dataset.path, sizeof job.dataset.path, "%s", folder_path(names[i]));
        struct dataset dataset;
        cr_assert_eq(dataset_load(&job, &dataset), STATUS_OK, "%s", status_reason());
        cr_assert(dataset.n_node == 3 && dataset.n_edge == 3 && dataset.n_feature == 2 && dataset.n_class == 3);
        cr_assert(dataset.labels[0] == 1 && dataset.labels[1] == (i == 3 ? -1 : 0) && dataset.labels[2] == 2);
        cr_assert(dataset.split[0] == 1 && dataset.split[1] == 2 && dataset.split[2] == 3);
        float row[2];
        dataset_feature_rows(&dataset, (uint32_t[]){2}, 1, row);
        cr_assert(row[0] == 4 && row[1] == 5);
        cr_assert_str_eq(dataset.name, i == 0 ? "three" : names[i]);
        dataset_release(&dataset);
    }
}
