#!/usr/bin/python3
"""What kernels ask of memory, as a table, and whether it keeps the bars.

usage: table.py PROGRAM OBJECTS

PROGRAM is `sectors`. OBJECTS has what ptxas said of each file (*.ptxas); where it has nothing, registers are not known.
Prints a table of kernels, each at its worst F of rmat and sbm, then lines that begin with "ok" or "FAIL", a tab and the bar.

sectors     asked for, over the least possible (count.cpp); hub: where one row has most of the edges, which has no bar
conflicts   wavefronts of shared memory over the least possible
time        of 256 columns, the last graph: each touched sector read or written once, at 3.35 TB/s; and each asked for,
            as if no cache held any
occupancy   threads of the 2048 that an SM of sm_90 can hold: 65536 registers, 228 KiB of shared memory, 32 blocks"""
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

BANDWIDTH = 3.35e12
GROUPS = ("sums", "bordered", "attention", "pointwise", "loss", "optimiser", "maxima", "rows", "codecs", "products")
BARRED = GROUPS[:6]  # whose sectors have a bar
SECTORS, CONFLICTS, OCCUPANCY = 1.10, 1.05, 0.5

# Kernels that may miss a bar, how far, and why: (pattern, bar, limit, why).
NOTES = [
    (r"^pass_rows<query<1,", "sectors", 1.35, "doubles of grad_att, of at most 2048 ranges of rows: here of each row"),
    (r"^pass_long<query<1,", "sectors", 2.50, "doubles of grad_att, of 128 shares of the long rows: here there is no long one"),
    (r"^pass_heads<forward_add<shape<4, 4, 1>", "sectors", 1.15, "columns of four edges, read twice, begin on any 4 bytes"),
    (r"^scores_add", "sectors", 4.0, "56 bytes of each chunk of the loss"),
    (r"^pass_", "occupancy", 0.25, "registers hold rows on their way; more warps gave 2 to 4 % on an H100 (docs/gpu-results.md)"),
    (r"^sum_rows<.*, true, true>", "occupancy", 0.43, "a second sum in registers, of edges behind a border"),
    (r"^sum_units<float4, true,", "occupancy", 0.37, "the same, and 32 numbers on their way"),
    (r"^loss_chunks", "occupancy", 0.37, "exponentials and seven sums in double"),
    (r"^layer_norm_gradients", "occupancy", 0.37, "sums in double"),
    (r"^columns_add<", "occupancy", 0.37, "32 numbers of each lane are on their way, 98 KB of a processor"),
    (r"^encode_rows", "occupancy", 0.25, "the draws and codes of 8 to 16 columns in registers; with four blocks one spills"),
    (r"^product_tiles<sums<fp32_parts", "occupancy", 0.25, "32 sums and 48 numbers of a thread in registers: bound by arithmetic"),
    (r"^product_tiles<sums<", "occupancy", 0.12, "64 sums and 48 parts of a thread in registers: tiles are on their way in shared memory"),
]

# Of `sectors planted`: sectors, the least, bytes, touched; wavefronts, the least; atomics.
PLANTED = {
    "coalesced": (8, 8, 256, 8, 0, 0, 0),
    "shifted": (9, 8, 256, 9, 0, 0, 0),
    "strided": (36, 8, 256, 36, 0, 0, 0),
    "vectors": (33, 33, 1028, 32, 0, 0, 0),
    "transposed<32>": (8, 8, 256, 8, 33, 2, 0),
    "transposed<33>": (8, 8, 256, 8, 2, 2, 0),
    "halves": (10, 10, 320, 10, 0, 0, 0),
    "counted": (1, 1, 4, 1, 0, 0, 32),
}

Count = collections.namedtuple("Count", "symbol threads shared launches sectors least bytes touched waves waves_least atomics")
Count.sector_ratio = property(lambda c: c.sectors / max(c.least, 1))
Count.wave_ratio = property(lambda c: c.waves / c.waves_least if c.waves_least else 1.0)


def run(program, group):
    text = subprocess.run([program, group], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        *name, symbol = line.split("\t")[:-10]
        yield name, Count(symbol, *map(int, line.split("\t")[-10:]))


def registers(folder):
    """Registers and bytes of shared memory of each kernel, by its symbol."""
    found = {}
    for path in pathlib.Path(folder).rglob("*.ptxas"):
        pattern = r"entry function '(\w+)' for 'sm_90'.*?Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?"
        for symbol, n, shared in re.findall(pattern, path.read_text(), re.S):
            found[symbol] = int(n), int(shared or 0)
    return found


def occupancy(threads, n_register, shared):
    warps = -(-threads // 32)
    by_registers = 65536 // (-(-n_register * 32 // 256) * 256) // 4 * 4 // warps
    by_shared = 228 * 1024 // (-(-shared // 128) * 128 + 1024)
    return min(by_registers, by_shared, 64 // warps, 32) * warps / 64


def short(name):
    name = re.sub(r"\(.*", "", re.sub(r"^void ", "", name))
    return name.replace("(", "").replace(" >", ">")


def main(program, objects):
    resources = registers(objects)
    verdicts = []

    def judge(what, value, limit, least=False):
        verdicts.append((value >= limit if least else value <= limit, f"{what}: {value:.3f}, {'least' if least else 'most'} {limit:.2f}"))

    for name, count in run(program, "planted"):
        verdicts.append((count[4:] == PLANTED.pop(name[0], None), f"{name[0]}, planted: {count[4:]}"))
    verdicts.append((not PLANTED, f"planted, and not counted: {', '.join(PLANTED)}"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        longest_first = sorted(GROUPS, key=lambda g: g != "attention")
        counted = dict(zip(longest_first, pool.map(lambda g: list(run(program, g)), longest_first)))
    rows = collections.defaultdict(list)
    for group in GROUPS:
        for (_, graph, width), count in counted[group]:
            rows[group, count.symbol].append((f"{graph} {width}", count))
    symbols = "\n".join(symbol for _, symbol in rows)
    names = subprocess.run(["c++filt"], input=symbols, check=True, capture_output=True, text=True).stdout.splitlines()
    print("| group | kernel | sectors | at | hub | conflicts | atomics | µs, touched | µs, asked | registers | shared | occupancy | note |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for ((group, symbol), cases), name in zip(rows.items(), map(short, names)):
        worst, sectors = max((c for c in cases if not c[0].startswith("hub")), key=lambda c: c[1].sector_ratio, default=cases[0])
        hub = max((c.sector_ratio for at, c in cases if at.startswith("hub")), default=0)
        conflicts = max(c.wave_ratio for _, c in cases)
        last = cases[-1][1]
        limits = {"sectors": SECTORS if group in BARRED else None, "conflicts": CONFLICTS, "occupancy": OCCUPANCY}
        notes = [n for n in NOTES if re.search(n[0], name)]
        for _, bar, limit, _ in notes:
            limits[bar] = limit
        if limits["sectors"]:
            judge(f"sectors of {name}, {worst}", sectors.sector_ratio, limits["sectors"])
        judge(f"bank conflicts of {name}", conflicts, limits["conflicts"])
        held = "", "", ""
        if symbol in resources:
            n_register, shared = resources[symbol]
            share = occupancy(last.threads, n_register, shared)
            held = n_register, shared, f"{share:.0%}"
            judge(f"occupancy of {name}", share, limits["occupancy"], least=True)
        elif resources:
            verdicts.append((False, f"registers of {name} ({symbol}) are not among ptxas's"))
        print(f"| {group} | {name} | {sectors.sector_ratio:.3f} | {worst} | {f'{hub:.3f}' if hub else ''} | {conflicts:.2f} | {last.atomics} | "
              f"{32e6 * last.touched / BANDWIDTH:.2f} | {32e6 * last.sectors / BANDWIDTH:.2f} | "
              f"{held[0]} | {held[1]} | {held[2]} | {'; '.join(n[3] for n in notes)} |")
    for good, what in verdicts:
        print(f"{'ok' if good else 'FAIL'}\t{what}")


main(*sys.argv[1:])
