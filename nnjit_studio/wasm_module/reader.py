"""A small reader of Wasm modules: what a kernel imports, exports and takes.

After the binary format of the WebAssembly core specification, section 5. It
reads only the sections that decide what a module can reach; whether its code
is valid is for the engine to say.
"""

from __future__ import annotations

from dataclasses import dataclass

MAGIC = b"\0asm\1\0\0\0"
I32 = 0x7F
KINDS = ("func", "table", "memory", "global", "tag")


@dataclass(frozen=True)
class WasmModule:
    """Imports as ``(module, name, kind)``, exports as ``(name, kind, index)``.

    ``functions`` holds the parameters and results of every function of the
    module itself, as value type bytes; ``has_start`` tells of code that runs
    without being called.
    """

    imports: tuple[tuple[str, str, str], ...]
    exports: tuple[tuple[str, str, int], ...]
    functions: tuple[tuple[bytes, bytes], ...]
    has_start: bool


class _Reader:
    """A cursor over bytes; every read past the end is a ValueError."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, n: int) -> bytes:
        if self.at + n > len(self.data):
            raise ValueError("the module ends too early")
        self.at += n
        return self.data[self.at - n : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def unsigned(self) -> int:
        """LEB128, at most 64 bits (section 5.2.2)."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")

    def name(self) -> str:
        return self.take(self.unsigned()).decode("utf-8")

    def kind(self) -> str:
        code = self.byte()
        if code >= len(KINDS):
            raise ValueError(f"the kind {code} is unknown")
        return KINDS[code]

    def limits(self) -> None:
        flags = self.byte()
        self.unsigned()
        if flags & 1:
            self.unsigned()


def read_module(data: bytes) -> WasmModule:
    """Read imports, exports and function types.

    Raises
    ------
    ValueError
        When the bytes are not a module, or use a form that no kernel has.
    """
    if not data.startswith(MAGIC):
        raise ValueError("it is not a Wasm module")
    reader = _Reader(data)
    reader.at = len(MAGIC)
    types: list[tuple[bytes, bytes]] = []
    imports: list[tuple[str, str, str]] = []
    indices: list[int] = []
    exports: list[tuple[str, str, int]] = []
    has_start = False
    while reader.at < len(data):
        section = reader.byte()
        body = _Reader(reader.take(reader.unsigned()))
        if section == 1:
            for _ in range(body.unsigned()):
                if body.byte() != 0x60:
                    raise ValueError("a type is not a function")
                types.append((body.take(body.unsigned()), body.take(body.unsigned())))
        elif section == 2:
            imports = [_import(body) for _ in range(body.unsigned())]
        elif section == 3:
            indices = [body.unsigned() for _ in range(body.unsigned())]
        elif section == 7:
            exports = [(body.name(), body.kind(), body.unsigned()) for _ in range(body.unsigned())]
        elif section == 8:
            has_start = True
    if any(index >= len(types) for index in indices):
        raise ValueError("a function has no type")
    return WasmModule(
        tuple(imports), tuple(exports), tuple(types[index] for index in indices), has_start
    )


def _import(body: _Reader) -> tuple[str, str, str]:
    module, name, kind = body.name(), body.name(), body.kind()
    if kind == "memory":
        body.limits()
    elif kind == "func":
        body.unsigned()
    else:
        raise ValueError(f"it imports the {kind} {module}.{name}")
    return module, name, kind


def kernel_pointers(data: bytes) -> int:
    """Number of pointer parameters of a kernel's ``run(pointers..., begin, end)``.

    Raises
    ------
    ValueError
        When the module is not a kernel: it must import ``env.memory`` and
        nothing else, export the function ``run`` of i32 parameters without
        results, and start nothing by itself.
    """
    module = read_module(data)
    if module.imports != (("env", "memory", "memory"),):
        found = ", ".join(f"{m}.{n} ({k})" for m, n, k in module.imports) or "nothing"
        raise ValueError(f"it imports {found} instead of env.memory alone")
    if module.has_start:
        raise ValueError("it has a start function")
    index = next((i for name, kind, i in module.exports if (name, kind) == ("run", "func")), None)
    # No functions are imported here, so indices count the module's own functions.
    if index is None or index >= len(module.functions):
        raise ValueError("it exports no function run")
    parameters, results = module.functions[index]
    if len(parameters) < 2 or set(parameters) != {I32} or results:
        raise ValueError("its function run is not run(pointers..., begin, end) of i32")
    return len(parameters) - 2
