"""The epilogue in WGSL: one function that finishes a sum and stores the results.

The function takes ``width`` neighbouring columns at once where the shape
allows: loads and stores that stand side by side along n are vectors.
"""

from __future__ import annotations

from nnjit_studio.compiler.ir.affine import affine, loads, stride
from nnjit_studio.compiler.ir.rewrite import substitute_store
from nnjit_studio.compiler.ir.tensor_ir import Expr, Program, Var
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR, Contraction
from nnjit_studio.compiler.wgsl.core.document import Shader
from nnjit_studio.compiler.wgsl.core.lanes import Lanes, NoLanesError
from nnjit_studio.compiler.wgsl.core.memory import memories
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times, vector
from nnjit_studio.compiler.wgsl.core.values import Block, Context, identifier
from nnjit_studio.errors import CompileError

SCRATCH = "s0"
_SUM = "sum"


class Finish:
    """The end of a kernel of one contraction.

    Parameters
    ----------
    given
        Columns of a thread's vector of sums; the function takes as many, or
        one where they do not divide N.
    apart
        Columns from one element of that vector to the next; above 1 the function takes one.
    total
        The sums' dtype; of integers the function takes one.
    """

    def __init__(
        self, program: Program, c: Contraction, given: int, apart: int = 1, total: str = "f32"
    ) -> None:
        self.program, self.c, self.given, self.apart, self.total = program, c, given, apart, total
        whole = c.n % given == 0 and apart == 1 and total == "f32"
        self.width = given if whole else 1
        names = {b.name: f"arg{i}" for i, b in enumerate(program.buffers)}
        self._memory = memories(program.buffers, (), names)
        self._wide = frozenset(self._wide_buffers())
        self._lines = self._made()

    def _made(self) -> list[str]:
        if self.width > 1:
            try:
                return self._by_lanes()
            except NoLanesError:
                self.width, self._wide = 1, frozenset()
        return self._one_by_one()

    def argument(self, buffer: str) -> str:
        """Name of a buffer in the document."""
        return f"a{[b.name for b in self.program.buffers].index(buffer)}"

    def call(self, function: str, m: str, n: str, value: str) -> list[str]:
        """A thread's sums at row ``m`` and the columns from ``n`` on, handed to a function."""
        where = "".join(f"{axis.var}, " for axis in self.c.batch)
        if function == "keep":
            where = f"part, {where}"
        if self.width == self.given:
            return [f"{function}({where}{m}, {n}, {value});"]
        lanes = ((plus(n, str(e * self.apart)), f"{value}.{'xyzw'[e]}") for e in range(self.given))
        return [f"{function}({where}{m}, {at}, {lane});" for at, lane in lanes]

    def declare(self, shader: Shader, guards: list[str]) -> None:
        """Bind what the epilogue reads and writes, and add its function ``finish``.

        Raises
        ------
        CompileError
            When an output's elements share words, or an operation has no kernel.
        """
        stores = self.c.epilogue
        read = {e.buffer for s in stores for e in (*loads(s.index), *loads(s.value))}
        written = {s.buffer for s in stores}
        for buffer in self.program.buffers:
            if buffer.name in written | read:
                memory = self._memory[buffer.name]
                kind = vector(self.width) if buffer.name in self._wide else memory.element
                access = "read_write" if buffer.name in written else "read"
                shader.bind(self.argument(buffer.name), memory.name, f"array<{kind}>", access)
        self._function(shader, "finish", guards, self._lines)

    def declare_keep(self, shader: Shader, guards: list[str]) -> None:
        """Bind the scratch buffer, and add a function ``keep`` that stores a part's sums there."""
        kind = vector(self.width, self.total)
        shader.bind(SCRATCH, "sums", f"array<{kind}>", "read_write")
        self._function(shader, "keep", guards, [f"sums[{self.kept('part')}] = sum;"], "part: u32, ")

    def kept(self, part: str) -> str:
        """Where the sums of a part of the reduction are kept, in vectors of ``width``."""
        c, w = self.c, self.width
        rows = c.m * c.n // w
        terms: list[str] = []
        stride_ = rows
        for axis in reversed(c.batch):
            terms.insert(0, times(axis.var, stride_))
            stride_ *= axis.extent
        column = "n" if w == 1 else f"n / {w}u"
        return plus(times(part, stride_), *terms, times("m", c.n // w), column)

    def _function(
        self, shader: Shader, name: str, guards: list[str], lines: list[str], more: str = ""
    ) -> None:
        where = "".join(f"{axis.var}: u32, " for axis in self.c.batch)
        kind = vector(self.width, self.total)
        head = f"fn {name}({more}{where}m: u32, n: u32, {_SUM}: {kind}) {{"
        guard = [f"if ({' || '.join(guards)}) {{ return; }}"] if guards else []
        text = "\n".join([head, *indented([*guard, *lines]), "}"])
        shader.functions(text)
        shader.line(text)

    def _by_lanes(self) -> list[str]:
        names = {name: memory.name for name, memory in self._memory.items()}
        lanes = Lanes(self.program, names, self._wide, self.width, self.c.n_var)
        for store in self.c.epilogue:
            if self.program.buffer(store.buffer).dtype != "f32":
                raise NoLanesError(f"{store.buffer} is not float32.", "")
            name, value = names[store.buffer], lanes.value(store.value)
            if store.buffer in self._wide:
                lanes.lines.append(f"{name}[{lanes.vector_place(store.index)}] = {value};")
            else:
                lanes.lines += [
                    f"{name}[{place}] = {value}.{'xyzw'[e]};"
                    for e, place in enumerate(lanes.places(store.index))
                ]
        return lanes.lines

    def _one_by_one(self) -> list[str]:
        c = self.c
        axes = {axis.var: axis.extent for axis in c.batch} | {c.m_var: c.m, c.n_var: c.n}
        ranges = {var: (0, extent - 1) for var, extent in axes.items()}
        block = Block(Context(self._memory, ranges, {_SUM: self.total}))
        block.lines += [f"let {identifier(var)} = i32({var});" for var in axes]
        stores = [substitute_store(s, {ACCUMULATOR: Var(_SUM)}) for s in c.epilogue]
        block.expect(e for s in stores for e in (s.index, s.value))
        for store in stores:
            memory = self._memory[store.buffer]
            if memory.packed > 1:
                raise CompileError(
                    f"The elements of {store.buffer} share words.", "Use the default schedule."
                )
            value = block.typed(store.value, memory.dtype)
            block.lines.append(memory.store(block.index(store.index), value))
        return block.lines

    def _wide_buffers(self) -> set[str]:
        """Buffers whose every access is of ``width`` aligned neighbours along n."""
        accesses: dict[str, list[Expr]] = {}
        for store in self.c.epilogue:
            accesses.setdefault(store.buffer, []).append(store.index)
            for load in (*loads(store.index), *loads(store.value)):
                accesses.setdefault(load.buffer, []).append(load.index)
        aligned = {name for name, indices in accesses.items() if all(map(self._aligned, indices))}
        return {name for name in aligned if self.width > 1}

    def _aligned(self, index: Expr) -> bool:
        form, column = affine(index), self.c.n_var
        factors = dict(form.terms)
        others = [factor for atom, factor in form.terms if atom != column]
        return (
            factors.get(column) == 1
            and all(number % self.width == 0 for number in (form.constant, *others))
            and stride(index, column) == 1
        )
