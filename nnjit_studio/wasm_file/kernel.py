"""The interface of a kernel's module, checked without running it."""

from __future__ import annotations

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file.module import read

I32 = 0x7F


def kernel_pointers(data: bytes) -> int:
    """Number of pointer parameters of a kernel's ``run(pointers..., begin, end)``.

    Raises
    ------
    WasmError
        When the module is not a kernel: it must import ``env.memory`` and
        nothing else, export the function ``run`` of i32 parameters without
        results, and start nothing by itself.
    """
    module = read(data)
    if [(i.module, i.name, i.kind) for i in module.imports] != [("env", "memory", "memory")]:
        found = ", ".join(f"{i.module}.{i.name} ({i.kind})" for i in module.imports) or "nothing"
        raise WasmError(f"It imports {found} instead of env.memory alone.")
    if module.start is not None:
        raise WasmError("It has a start function.")
    index = next((e.index for e in module.exports if (e.name, e.kind) == ("run", "func")), None)
    if index is None or index not in module.defined:
        raise WasmError("It exports no function run.")
    parameters, results = module.type_of(index)
    if len(parameters) < 2 or set(parameters) != {I32} or results:
        raise WasmError("Its function run is not run(pointers..., begin, end) of i32.")
    return len(parameters) - 2
