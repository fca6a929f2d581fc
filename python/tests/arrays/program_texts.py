"""Vertex programs at random, in the grammar of docs/programs.md, of operations that tile programs compute."""
import random

# A loop's difference of rows is 0, where normalize has no derivative.
UNARY = ["relu({})", "leaky_relu({}, 0.2)", "elu({})", "gelu({})", "silu({})", "sigmoid({})", "tanh({})", "softplus({})", "exp(tanh({}))",
         "log(softplus({}) + 1)", "sqrt(softplus({}) + 0.1)", "abs({})", "clamp({}, -0.5, 0.7)", "(({}) ** 2)", "(softplus({}) ** 1.5)", "normalize({} + 0.3)"]
BINARY = ["({} + {})", "({} - {})", "({} * {})", "({} / (softplus({}) + 1))", "minimum({}, {})", "maximum({}, {})"]

LASTS = ["v.y1 + v.r1", "v.y1 * sigmoid(v.r2)", "silu(v.y1) - v.r1 * 0.5", "concat(v.y1, v.r1)", "normalize(v.y1 + v.r2)",
         "v.y1 / (v.degree + 1)", "v.y1 * log(v.degree + 1) + v.r1"]
OF_NODES = {"e.src.": "v.", "e.dst.": "v.", "e.weight": "v.degree", "e.norm": "v.degree", "e.feature": "v.r1"}


class Text:
    """A layer whose messages are made of rows of `out` columns, of heads of as many, and of single numbers."""

    def __init__(self, rng: random.Random, featured: bool) -> None:
        self.rng, self.featured, self.n, self.message = rng, featured, 0, ""
        h = self.n_head = rng.choice([1, 2, 2, 3])
        self.lines = ['v.r1 = linear("r1", v.x, out)', 'v.r2 = tanh(linear("r2", v.x, out, bias=False))',
                      f'v.h1 = linear("h1", v.x, {h} * out).heads({h})', f'v.h2 = relu(linear("h2", v.x, {h} * out)).heads({h})']

    def name(self, what: str) -> str:
        self.n += 1
        return f"{what}{self.n}"

    def leaf(self, what: str) -> str:
        """e.src.r1: a row, or heads"""
        return f'e.{self.rng.choice(["src", "dst"])}.{what}{self.rng.choice([1, 2])}'

    def number(self, depth: int) -> str:
        """One number of an edge."""
        kinds = ["dot({0}, {1})", "sum_columns({0})", "norm({0})", "dot({0}, param('{2}', out))", "(e.weight * {3})"]
        kind = self.rng.choice([*kinds, "(e.norm + 0.1) * {3}"])
        inner = self.number(depth - 1) if depth > 0 else self.rng.choice(["0.5", "2"])
        return "tanh(" + kind.format(self.row(depth - 1), self.row(depth - 1), self.name("p"), inner) + ")"

    def heads(self, depth: int) -> str:
        """Heads of `out` columns."""
        if depth <= 0:
            return self.leaf("h")
        kind, h = self.rng.randrange(6), self.n_head
        if kind == 5:
            heads = self.heads(depth - 1)
            return f"concat({heads}[:, 1:out], {heads}[:, 0:1])"
        if kind == 0:
            return self.rng.choice(UNARY).format(self.heads(depth - 1))
        if kind == 1:
            return self.rng.choice(BINARY).format(self.heads(depth - 1), self.heads(depth - 1))
        if kind == 2:
            rows = self.rng.choice([self.leaf("h"), self.heads(depth - 1)])
            dot = f"dot({rows}, param('{self.name('p')}', {self.rng.choice([f'1, {h}, out', f'{h}, out', 'out', '1, out'])}))"
            return f"({self.heads(depth - 1)} {self.rng.choice(['*', '+', '-'])} {dot})"
        if kind == 3:
            return f"({self.heads(depth - 1)} @ param('{self.name('w')}', {h}, out, out))"
        wide = [f"{h}, out", f"1, {h}, out"]  # of a weight that repeats another operand, or is repeated
        of, shapes = self.rng.choice([(self.row, wide), (self.heads, [*wide, f"{h}, 1", "out", "1, out", "1"]), (self.number, [*wide, f"{h}, 1", "1"])])
        weight = f"(param('{self.name('p')}', {self.rng.choice(shapes)}) + 3)"
        return f"({of(depth - 1)} {self.rng.choice(['*', '+', '-', '/'])} {weight} + {self.leaf('h')})"

    def row(self, depth: int) -> str:
        """`out` columns of an edge."""
        if depth <= 0:
            return self.leaf("r")
        kind = self.rng.randrange(10)
        if kind == 9:
            return f"({self.row(depth - 1)} @ param('{self.name('w')}', 3, out, out)[{self.rng.randrange(3)}])"
        if kind in (0, 1):
            return self.rng.choice(UNARY).format(self.row(depth - 1))
        if kind in (2, 3):
            return self.rng.choice(BINARY).format(self.row(depth - 1), self.row(depth - 1))
        if kind == 4:
            return f"({self.row(depth - 1)} * {self.number(depth - 1)})"
        if kind == 5:
            return f"{self.heads(depth - 1)}.{self.rng.choice(['sum_heads', 'mean_heads'])}()"
        if kind == 6:
            other = "e.feature" if self.featured and self.rng.random() < 0.5 else self.row(depth - 1)
            return f'linear("{self.name("m")}", concat({self.row(depth - 1)}, {other}), out, bias={self.rng.random() < 0.5})'
        if kind == 7:
            row = self.row(depth - 1)
            return f"concat({row}[:, 1:out], {row}[:, 0:1])"
        # A sum that is not 0: rows of 0 are equal, and of equal maxima each program chooses one.
        return f"({self.row(depth - 1)} * param('{self.name('p')}', out, init=uniform(1.0)) + param('{self.name('p')}', out, init=uniform(0.3)))"

    def reduction(self) -> str:
        how = self.rng.choice(["sum", "max", "min", "mean", "mean", "var", "std", "softmax", "channels"])
        if how in ("softmax", "channels"):
            score = self.number(2) if how == "softmax" else self.row(2)
            return f"sum(softmax({score}) * {self.row(2)} for e in v.in_edges)"
        if self.rng.random() < 0.4:  # what all edges of a node have in common leaves a reduction
            before, behind = self.rng.choice([("relu(", ")"), ("sigmoid(", ")"), ("", " * 0.5"), ("", ""), ("tanh(", ") * 2")])
            common = self.rng.choice(["e.dst.r1 + {}", "{} - e.dst.r2", "e.dst.r1 - {}", "{} * e.dst.r2", "e.dst.r1 * {}", "{}"])
            return f"{how}({before}{common.format(self.row(1))}{behind} for e in v.in_edges)"
        if self.rng.random() < 0.3:
            return f"{how}({self.heads(2)} for e in v.in_edges).{self.rng.choice(['sum_heads', 'mean_heads'])}()"
        if self.message == "" or self.rng.random() < 0.5:
            self.message = self.row(3)
        return f"{how}({self.message} for e in v.in_edges)"  # of one message: one aggregate

    def of_nodes(self) -> str:
        """`out` columns of a node: a row program."""
        rows = self.heads(2) + ".sum_heads()" if self.rng.random() < 0.3 else self.row(3)
        for edge, node in OF_NODES.items():
            rows = rows.replace(edge, node)
        return rows

    def text(self) -> str:
        self.lines.append(f"v.y1 = {self.reduction()}")
        if self.rng.random() < 0.5:
            self.lines.append(f"v.y2 = {self.of_nodes() if self.rng.random() < 0.5 else self.reduction()}")
            last = self.rng.choice(["v.y1 + tanh(v.y2)", "v.y1 * tanh(v.y2)", "concat(v.y2, v.y1)"])
        else:
            last = self.rng.choice(LASTS)
        switches = "".join(f"{name} = {value}\n" for name, value, share in (("self_loops", True, 0.4), ("match", False, 0.15), ("move", False, 0.1))
                           if self.rng.random() < share)
        return f"{switches}def layer(v, out):\n    " + "\n    ".join([*self.lines, f'return linear("last", {last}, out)']) + "\n"


def edges_at_random(rng: random.Random, featured: bool) -> str:
    return Text(rng, featured).text()


# Rows of a layer in which no weight is, of v.x.
WEIGHTLESS = ["v.x", "v.x + v.x", "2 * v.x", "elu(v.x)", "relu(v.x - 0.1)", "tanh(v.x) * v.x", "concat(v.x, tanh(v.x))", "v.x[:, 0:3]", "normalize(v.x + 0.3)",
              "dropout(v.x, 0)", "sum(e.src.x for e in v.in_edges)", "mean(e.weight * e.src.x for e in v.in_edges)", "v.x - mean(e.src.x for e in v.in_edges)",
              "sum(silu(e.src.x - e.dst.x) for e in v.in_edges)", "max(e.src.x * e.dst.x + e.src.x for e in v.in_edges)",
              "sum(softmax(e.src.x * e.dst.x) * e.src.x for e in v.in_edges)", "sum(softmax(sum_columns(e.src.x)) * e.src.x for e in v.in_edges)"]
NORMS = ['layer_norm("ln", {})', 'batch_norm("bn", {})']


def weightless_at_random(rng: random.Random, stack: bool, columns: int) -> str:
    """Layers, or a model, without weights or with those of a norm alone; the last one is mapped to what is wanted where it has another width."""
    def rows() -> str:
        text = rng.choice(WEIGHTLESS)
        return rng.choice(NORMS).format(text) if rng.random() < 0.3 else text

    lines = ["self_loops = True"] * (rng.random() < 0.4) + ["match = False"] * (rng.random() < 0.2) + ["move = False"] * (rng.random() < 0.1)
    if stack:
        lines += ["def layer(v, out, index, last):"]
        for index in range(2):
            lines += [f"    {'if' if index == 0 else 'elif'} index == {index}:", f"        y = {rows()}"]
        lines += ["    else:", f"        y = {rows()}", "    if not last:", "        return y"]
        wanted = "out"
    else:
        lines += ["def model(v, classes):", f"    v.y = {rows()}", f"    y = {rng.choice(['v.y', 'v.x', 'v.y + tanh(v.y)', 'sum(e.src.y for e in v.in_edges)'])}"]
        wanted = "classes"
    if columns >= 3 and rng.random() < 0.5:
        return "\n".join([*lines, f"    return y[:, 0:{wanted}]"]) + "\n"
    return "\n".join([*lines, f'    return y if y.width == {wanted} else linear("lin", y, {wanted})']) + "\n"
